import Foundation
import Testing
import TrustedHTTP

@testable import DataProtection
@testable import ProtectionDownloads

@Suite struct SignatureTests {
    private func key(_ id: String = "k1") throws -> IntegrityKey {
        try IntegrityKey(id: id, DownloadBed.secret("065a62448fb75fce3764dcbe68f9908d"))
    }

    @Test func fieldsHaveTheirLengths() throws {
        let message = try key().message(of: [SignedField("a", "bc"), SignedField("", "")])
        #expect(
            message == [2, 0, 0, 0, 0x6B, 0x31, 2, 0, 0, 0, 1, 0, 0, 0, 0x61, 2, 0, 0, 0, 0x62, 0x63]
                + [UInt8](repeating: 0, count: 8))
    }

    @Test func everythingCounts() throws {
        let key = try key()
        let fields = [SignedField("method", "POST"), SignedField("amount", "1234")]
        let signature = try key.signature(of: fields)
        #expect(try key.isValid(signature, of: fields))
        let others = [
            [], [fields[0]], fields.reversed(), fields + [SignedField("", "")],
            [SignedField("method", "POSTamount"), SignedField("", "1234")],
            [SignedField("method", "POST"), SignedField("amount", "1235")],
            [SignedField("method", "POST"), SignedField("amounT", "1234")],
        ]
        for other in others { #expect(try !key.isValid(signature, of: other)) }
        #expect(try !self.key("k2").isValid(signature, of: fields))
        #expect(try !key.isValid(Array(signature.dropLast()), of: fields))
    }

    /// Issue 6, "Must show" 5, as the body of an upload from a protected file.
    @Test func bodies() throws {
        let bed = try DownloadBed()
        let text = Array("123443212300.002012-12-25 00:00:00".utf8)
        let file = try ProtectedFile.create(bed.path("body"), as: .completeUnlessOpen, keybag: bed.keybag)
        try text.withUnsafeBytes { try file.write($0, at: 0) }
        try file.close()
        let body = try ProtectedFileBody(bed.path("body"), keybag: bed.keybag)
        #expect(body.length == UInt64(text.count))
        // An open one is read through a lock.
        try bed.keybag.lock()
        let signature = try key().signature(of: body)
        #expect(Hexadecimal.text(signature) == "51e66ca8fd8eb4bbe02fc6421e0dda1deb94f0c9518996a55bc7a4c242f1c8a9")
        #expect(try key().isValid(signature, of: BytesToSend(text)))
        #expect(try !key().isValid(signature, of: BytesToSend(text + [0])))
        #expect(throws: DataProtectionError.self) { try ProtectedFileBody(bed.path("body"), keybag: bed.keybag) }
    }
}
