import Foundation
import SystemPackage
import TestCertificates
import Testing

@testable import TrustedHTTP

@Suite("Trust: exceptions")
struct TrustExceptionTests {
    private func exception(
        _ name: String, _ reasons: Set<RecoverableReason>, host: String = "localhost", port: Int = 443
    ) throws -> TrustException {
        try TrustException(
            host: host, port: port, certificate: Hexadecimal.text(Certificate.named(name).sha256), reasons: reasons)
    }

    private func verdict(
        _ exceptions: TrustException..., trust: ServerTrust? = nil, chain: PresentedChain
    ) throws -> TrustVerdict {
        try (trust ?? .root()).excepting(Set(exceptions)).verdict(chain)
    }

    @Test("An exception is for exactly this host, port, certificate and reason")
    func exact() throws {
        let chain = try presented("expired", "intermediate")
        #expect(try verdict(exception("expired", [.expired]), chain: chain) == .explicitlyTrusted)
        #expect(try verdict(exception("expired", [.expired], host: "LOCALHOST"), chain: chain) == .explicitlyTrusted)
        let others = [
            try exception("expired", [.expired], port: 8443), try exception("expired", [.expired], host: "example.org"),
            try exception("server", [.expired]), try exception("intermediate", [.expired]),
            try exception("expired", Set(RecoverableReason.allCases).subtracting([.expired])),
            try exception("expired", []),
        ]
        for other in others { #expect(try verdict(other, chain: chain).recoverableReasons == [.expired]) }
    }

    @Test("A second reason beside an excepted one still counts")
    func another() throws {
        let chain = try presented("expired-and-for-others", "intermediate")
        let name = "expired-and-for-others"
        #expect(try verdict(exception(name, [.expired]), chain: chain).recoverableReasons == [.hostMismatch])
        #expect(try verdict(exception(name, [.hostMismatch]), chain: chain).recoverableReasons == [.expired])
        #expect(try verdict(exception(name, [.hostMismatch, .expired]), chain: chain) == .explicitlyTrusted)
        #expect(
            try verdict(exception(name, [.hostMismatch]), exception(name, [.expired]), chain: chain)
                == .explicitlyTrusted)
    }

    @Test("Each recoverable reason can be excepted; for the server's own certificate if nobody vouches for it")
    func each() throws {
        for names in [["self-signed"], ["of-other-root"], ["of-other-root", "other-root"]] {
            let chain = PresentedChain(certificates: try names.map(Certificate.named), host: "localhost", port: 443)
            guard case .recoverable(let problems) = try ServerTrust.root().verdict(chain) else {
                Issue.record("\(try ServerTrust.root().verdict(chain))")
                continue
            }
            let exceptions = TrustException.covering(problems, of: chain)
            #expect(exceptions.map(\.certificateSHA256) == [chain.certificates[0].sha256])
            #expect(try ServerTrust.root(exceptions: exceptions).verdict(chain) == .explicitlyTrusted)
            // Not for another certificate of the same authority.
            let other = try presented("other-client", "other-root")
            #expect(try ServerTrust.root(exceptions: exceptions).verdict(other).allowsConnection == false)
        }
        let under = try presented("under-expired", "expired-intermediate")
        #expect(try verdict(exception("expired-intermediate", [.expired]), chain: under) == .explicitlyTrusted)
        #expect(try verdict(exception("under-expired", [.expired]), chain: under).recoverableReasons == [.expired])
        let future = try presented("not-yet-valid", "intermediate")
        #expect(try verdict(exception("not-yet-valid", [.notYetValid]), chain: future) == .explicitlyTrusted)
    }

    @Test("A pin that does not match is excepted by nothing")
    func pins() throws {
        let trust = try ServerTrust.root(pins: [.server(.publicKey(of: .named("backup")))])
        let all = try exception("expired", Set(RecoverableReason.allCases))
        let verdict = try verdict(all, trust: trust, chain: presented("expired", "intermediate"))
        #expect(verdict.fatalReasons == [.pinMismatch])
    }

    // MARK: the file

    @Test("An added exception is stored; reasons add up; a removed exception is gone")
    func store() throws {
        let directory = try RootDirectory()
        let store = TrustExceptionStore(FilePath(directory.path).appending("trust.json"))
        #expect(try store.exceptions() == [])
        try store.add(exception("expired", [.expired]))
        try store.add(exception("expired", [.hostMismatch]))
        try store.add(exception("expired", [.expired], port: 8443))
        let both = try exception("expired", [.expired, .hostMismatch])
        #expect(try store.exceptions() == [both, exception("expired", [.expired], port: 8443)])
        var facts = stat()
        #expect(stat(store.path.string, &facts) == 0 && facts.st_mode & 0o777 == 0o600)

        #expect(
            try store.remove(host: "localhost", port: 443, certificateSHA256: Certificate.named("server").sha256) == [])
        #expect(try store.remove(host: "LOCALHOST", port: 443) == [both])
        #expect(try store.exceptions() == [exception("expired", [.expired], port: 8443)])
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["trust.json"])
    }

    @Test("A file that is not wholly understood is an error, and is not replaced")
    func garbled() throws {
        let directory = try RootDirectory()
        let store = TrustExceptionStore(FilePath(directory.path).appending("trust.json"))
        try store.add(exception("expired", [.expired]))
        let good = try String(contentsOfFile: store.path.string, encoding: .utf8)
        #expect(good.contains("\"expired\"") && good.contains("443"))
        let bad = [
            "", "{", "[]", "{}", String(good.dropLast(3)),
            good.replacingOccurrences(of: "\"expired\"", with: "\"anything\""),
            good.replacingOccurrences(of: "\"version\" : 1", with: "\"version\" : 2"),
            good.replacingOccurrences(of: "443", with: "0"), good.replacingOccurrences(of: "443", with: "65536"),
            good.replacingOccurrences(of: "localhost", with: "*"),
            good.replacingOccurrences(of: "certificate\" : \"", with: "$0ff"),
        ]
        for text in bad {
            try text.write(toFile: store.path.string, atomically: false, encoding: .utf8)
            #expect(throws: TrustExceptionStoreError.self, "\(text)") { try store.exceptions() }
            #expect(throws: TrustExceptionStoreError.self) { try store.add(exception("expired", [.hostMismatch])) }
            #expect(try String(contentsOfFile: store.path.string, encoding: .utf8) == text)
        }
    }

    @Test("A file that others may write, or that is none, is not believed")
    func notOurs() throws {
        let directory = try RootDirectory()
        let store = TrustExceptionStore(FilePath(directory.path).appending("trust.json"))
        try store.add(exception("expired", [.expired]))
        for mode: mode_t in [0o620, 0o602] {
            chmod(store.path.string, mode)
            #expect(throws: TrustExceptionStoreError.notOurs(path: store.path)) { try store.exceptions() }
        }
        chmod(store.path.string, 0o600)
        let link = TrustExceptionStore(FilePath(directory.path).appending("link.json"))
        symlink(store.path.string, link.path.string)
        #expect(throws: TrustExceptionStoreError.notOurs(path: link.path)) { try link.exceptions() }
        let fifo = TrustExceptionStore(FilePath(directory.path).appending("fifo.json"))
        mkfifo(fifo.path.string, 0o600)
        #expect(throws: TrustExceptionStoreError.notOurs(path: fifo.path)) { try fifo.exceptions() }
        let huge = TrustExceptionStore(FilePath(directory.path).appending("huge.json"))
        try huge.add(exception("expired", [.expired]))
        truncate(huge.path.string, 1 << 30)
        #expect(throws: TrustExceptionStoreError.garbled(path: huge.path, why: "it has 1073741824 bytes")) {
            try huge.exceptions()
        }
    }

    @Test("Many at once lose nothing")
    func concurrent() async throws {
        let directory = try RootDirectory()
        let store = TrustExceptionStore(FilePath(directory.path).appending("trust.json"))
        let exceptions = try (1...24).map { try exception("expired", [.expired], port: $0) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for exception in exceptions { group.addTask { try store.add(exception) } }
            try await group.waitForAll()
        }
        #expect(try store.exceptions() == Set(exceptions))

        // While one changes it nobody else does.
        let changing = try TrustExceptionFile(store.path).lock()
        defer { close(changing) }
        let other = open(directory.path, O_RDONLY | O_DIRECTORY)
        defer { close(other) }
        #expect(flock(other, LOCK_SH | LOCK_NB) != 0)
    }
}
