import CLibSSL
import Foundation
import TestCertificates
import Testing

@testable import TrustedHTTP

@Suite("Trust: the system's roots")
struct SystemRootsTests {
    private func isKnown(_ name: String, to roots: SystemRoots) throws -> Bool {
        ServerTrust().evaluate(try presented(name), at: someday, roots: roots) == .trusted
    }

    @Test("They are read again when the file has been replaced, has gone, or has come")
    func refreshed() throws {
        let directory = try RootDirectory()
        let roots = SystemRoots(file: directory.file, directory: "/nonexistent")
        #expect(try !isKnown("direct", to: roots))
        try directory.write("root")
        #expect(try isKnown("direct", to: roots) && !isKnown("of-other-root", to: roots))
        try directory.write("other-root")
        #expect(try !isKnown("direct", to: roots) && isKnown("of-other-root", to: roots))
        try FileManager.default.removeItem(atPath: directory.file)
        #expect(try !isKnown("of-other-root", to: roots))
    }

    @Test("Those of a hashed directory count as well")
    func hashed() throws {
        let directory = try RootDirectory()
        let roots = SystemRoots(file: "/nonexistent", directory: directory.path)
        #expect(try !isKnown("direct", to: roots))
        let root = try Certificate.named("root")
        let hash = withExtendedLifetime(root) {
            X509_NAME_hash_ex(X509_get_subject_name(root.parsed.pointer), nil, nil, nil)
        }
        let digits = String(hash, radix: 16)
        let name = String(repeating: "0", count: 8 - digits.count) + digits + ".0"
        try TestCertificates.certificatePEM("root").write(
            toFile: directory.path + "/" + name, atomically: true, encoding: .utf8)
        #expect(try isKnown("direct", to: roots))
    }

    @Test("A root that the system's administrator rejects is denied")
    func rejected() throws {
        let directory = try RootDirectory()
        try directory.write("root")
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = ["x509", "-in", directory.file, "-addreject", "serverAuth", "-out", directory.file]
        try process.run()
        process.waitUntilExit()
        let roots = SystemRoots(file: directory.file, directory: "/nonexistent")
        let verdict = ServerTrust().evaluate(try presented("direct"), at: someday, roots: roots)
        #expect(try verdict == .denied(by: .system(.named("root"))))
    }

    @Test("Made once, not for every connection")
    func shared() throws {
        let directory = try RootDirectory()
        try directory.write("root")
        let roots = SystemRoots(file: directory.file, directory: "/nonexistent")
        #expect(try roots.store() === roots.store())
        let more = [try Certificate.named("other-root")]
        #expect(try roots.store(adding: more) === roots.store(adding: more))
        #expect(try roots.store(adding: more) !== roots.store())
    }

    @Test("Those of this machine are found")
    func ofThisMachine() throws {
        guard let text = try? String(contentsOfFile: LibSSL.defaultRoots.file, encoding: .utf8) else {
            print("skipped: this machine has no \(LibSSL.defaultRoots.file)")
            return
        }
        // It is no server's; but who vouches for it is no question.
        let root = try #require(try Certificate.all(pem: text).first)
        let chain = PresentedChain(certificates: [root], host: "localhost", port: 443)
        let verdict = ServerTrust().evaluate(chain, at: try #require(root.validity).lowerBound)
        let reasons = (verdict.recoverableReasons ?? []) + (verdict.besideReasons ?? [])
        #expect(reasons == [.hostMismatch], "\(verdict)")
    }

    @Test("The environment adds none")
    func environment() async {
        await #expect(processExitsWith: .success) {
            let directory = try RootDirectory()
            try directory.write("root")
            setenv("SSL_CERT_FILE", directory.file, 1)
            setenv("SSL_CERT_DIR", directory.path, 1)
            let verdict = ServerTrust().evaluate(
                try presented("direct"), at: Date(timeIntervalSince1970: Double(someday)))
            exit(verdict.recoverableReasons == [.incompleteChain] ? 0 : 1)
        }
    }
}
