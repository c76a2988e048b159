import Foundation
import Testing
import TrustedHTTP

@testable import DataProtection
@testable import ProtectionDownloads

/// Whoever can write to the disk while the keybag is locked must not decide which certificates are accepted.
@Suite struct TrustExceptionSealTests {
    private let bed: DownloadBed
    private let exception: TrustException

    init() throws {
        bed = try DownloadBed()
        exception = try TrustException(
            host: "server.test", port: 443, certificate: String(repeating: "ab", count: 32), reasons: [.selfSigned])
    }

    /// As versions before the seal wrote it, and as anybody can.
    private func plant(_ path: FilePath) throws {
        let plain = TrustExceptionStore(path)
        try plain.add(exception)
        #expect(try plain.exceptions() == [exception])
    }

    @Test func whatIsPlantedIsNotBelieved() async throws {
        let queue = try bed.queue()
        let store = queue.trustExceptions
        try plant(store.path)
        let planted = try Data(contentsOf: URL(fileURLWithPath: store.path.string))
        let refused = TrustExceptionStoreError.unauthenticated(path: store.path)
        #expect(throws: refused) { try store.exceptions() }
        #expect(throws: refused) { try store.add(exception) }
        #expect(throws: refused) { try store.remove(host: "server.test", port: 443) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: store.path.string)) == planted, "it is not destroyed")

        // Nothing is excepted for a download, and it goes on.
        let terms = TryTerms(store: queue.store, connections: DownloadConnections(), session: SessionCredentials())
        let request = bed.request()
        let id = try await queue.add(request).id
        #expect(try terms.http(for: request, id, terms.tokens(of: id, request)).trust.exceptions == [])
        try FileManager.default.removeItem(atPath: store.path.string)
        try store.add(exception)
        #expect(try terms.http(for: request, id, terms.tokens(of: id, request)).trust.exceptions == [exception])
    }

    @Test(arguments: ["443", "server.test", "self-signed", "abababab", "seal"])
    func whatIsAlteredIsNotBelieved(_ text: String) throws {
        let queue = try bed.queue()
        let store = queue.trustExceptions
        try store.add(exception)
        #expect(try bed.queue().trustExceptions.exceptions() == [exception], "another process believes it")
        let others = [
            "443": "444", "server.test": "server.tess", "self-signed": "unknown-root", "abababab": "abababac",
            "seal": "sale",
        ]
        let stored = try String(contentsOfFile: store.path.string, encoding: .utf8)
        let range = try #require(stored.range(of: text))
        let altered = stored.replacingCharacters(in: range, with: try #require(others[text]))
        try altered.write(toFile: store.path.string, atomically: false, encoding: .utf8)
        #expect(throws: TrustExceptionStoreError.unauthenticated(path: store.path)) { try store.exceptions() }
    }

    /// The seal of one list is none in another.
    @Test func ofAnotherList() throws {
        let (queue, other) = (try bed.queue(), try DownloadBed())
        let foreign = try other.queue()
        try foreign.trustExceptions.add(exception)
        try FileManager.default.copyItem(
            atPath: foreign.trustExceptions.path.string, toPath: queue.trustExceptions.path.string)
        #expect(throws: TrustExceptionStoreError.unauthenticated(path: queue.trustExceptions.path)) {
            try queue.trustExceptions.exceptions()
        }
        withExtendedLifetime(other) {}
    }

    @Test func inEveryLockState() throws {
        try bed.queue().trustExceptions.add(exception)
        try bed.keybag.lock()
        #expect(try bed.queue().trustExceptions.exceptions() == [exception])
        try bed.forgetEverything()
        let store = try bed.queue().trustExceptions
        #expect(throws: TrustExceptionStoreError.locked(path: store.path)) { try store.exceptions() }
        try bed.unlock()
        try store.remove(host: "server.test", port: 443)
        try bed.forgetEverything()
        #expect(try bed.queue().trustExceptions.exceptions() == [], "without exceptions no key is needed")
    }
}
