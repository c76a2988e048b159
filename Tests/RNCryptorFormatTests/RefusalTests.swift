import Foundation
import ProtectionKeys
import Testing

@testable import RNCryptorFormat

@Suite struct RefusalTests {
    /// With keys, all bytes; with a password, whose tries take time, those of the header, the ends, and every seventh.
    @Test(arguments: [RNCryptorHeader.Kind.keys, .password])
    func everyFlippedByteIsRefused(kind: RNCryptorHeader.Kind) throws {
        let message = try sealed(pattern(100), with: secret(kind))
        for index in message.indices {
            let isNear = index < 52 || index > message.count - 50
            for mask in kind == .keys || isNear || index % 7 == 0 ? [UInt8(1), 0x80, 0xFF] : [] {
                var altered = message
                altered[index] ^= mask
                let error = #expect(throws: RNCryptorError.self) { try opened(altered, with: secret(kind)) }
                // What stands behind version and options tells nothing but that it is wrong.
                if index > 1 { #expect(error == .wrongPasswordOrAltered, "byte \(index)") }
            }
        }
    }

    @Test(arguments: try Vector.all(in: "v2-password"))
    func everyFlippedByteOfVersion2IsRefused(vector: Vector) throws {
        let message = try vector.bytes("message")
        for index in message.indices {
            var altered = message
            altered[index] ^= UInt8(1) << (index % 8)
            #expect(throws: RNCryptorError.self, "byte \(index)") {
                try opened(altered, with: .password(vector.text("password")))
            }
        }
    }

    @Test(arguments: [RNCryptorHeader.Kind.keys, .password])
    func everyShorterOneIsRefused(kind: RNCryptorHeader.Kind) throws {
        let message = try sealed(pattern(100), with: secret(kind))
        let header = kind == .keys ? 18 : 34
        for length in message.indices {
            let cut = Array(message[..<length])
            let error = #expect(throws: RNCryptorError.self) { try opened(cut, with: secret(kind)) }
            let textLength = length - header - 32
            #expect(
                error
                    == (textLength > 0 && textLength % 16 == 0
                        ? .wrongPasswordOrAltered : .truncated(length: Int64(length))))
        }
    }

    @Test func everyLongerOneIsRefused() throws {
        let message = try sealed(pattern(100), with: .anyKeys())
        for more in 1...33 {
            #expect(throws: RNCryptorError.self) { try opened(message + pattern(more), with: .anyKeys()) }
        }
        // Blocks added, taken away and exchanged in the middle, under the HMAC as it was.
        #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
            try opened(Array(message[..<34] + message[18...]), with: .anyKeys())
        }
        #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
            try opened(Array(message[..<18] + message[34...]), with: .anyKeys())
        }
        #expect(throws: RNCryptorError.wrongPasswordOrAltered) {
            try opened(Array(message[..<18] + message[34..<50] + message[18..<34] + message[50...]), with: .anyKeys())
        }
    }

    @Test func theWrongSecretIsRefused() throws {
        let message = try sealed(pattern(100), with: .password("right"))
        for wrong in ["wrong", "Right", "righ", "right ", "right\n"] {
            #expect(throws: RNCryptorError.wrongPasswordOrAltered) { try opened(message, with: .password(wrong)) }
        }
        #expect(throws: RNCryptorError.needsPassword) { try opened(message, with: .anyKeys()) }
        let ofKeys = try sealed(pattern(100), with: .anyKeys())
        #expect(throws: RNCryptorError.needsKeys) { try opened(ofKeys, with: .password("right")) }
        for half in [0, 32] {
            var keys = (100..<164).map { UInt8($0) }
            keys[half] ^= 1
            // The encryption key is not authenticated: the HMAC key alone tells. So a wrong one gives a wrong text, or none.
            if half == 32 {
                #expect(throws: RNCryptorError.wrongPasswordOrAltered) { try opened(ofKeys, with: .keys(keys)) }
            } else {
                let text = try? opened(ofKeys, with: .keys(keys))
                #expect(text == nil || text != pattern(100))
            }
        }
    }

    @Test(
        arguments: [
            ([0x50, 0x4B, 3, 4], RNCryptorError.notRNCryptor), ([3, 2], .notRNCryptor), ([3, 0x81], .notRNCryptor),
            ([4, 1], .notRNCryptor), ([0, 7], .notRNCryptor), ([0xFF], .notRNCryptor), ([], .truncated(length: 0)),
            ([3], .truncated(length: 1)), ([2, 1], .truncated(length: 2)), ([3, 0], .truncated(length: 2)),
            ([0, 0], .unsupportedVersion(0)), ([1, 1], .unsupportedVersion(1)),
            ([0x52, 0x4E, 0x43, 4], .unsupportedVersion(4)),
            ([0x52, 0x4E, 0x43], .notRNCryptor),
        ] as [([UInt8], RNCryptorError)])
    func otherBeginnings(start: [UInt8], error: RNCryptorError) {
        #expect(throws: error) {
            _ = try start.lendBytes { start throws(RNCryptorError) in try RNCryptorHeader(readFrom: start) }
        }
    }

    /// Who has the keys can make such a message. It is called malformed only because its HMAC is right.
    @Test(arguments: [[0], [17], [16], [2], [3, 2], [255]] as [[UInt8]])
    func paddingIsLookedAtLast(padding: [UInt8]) throws {
        var message: [UInt8] = [3, 0] + pattern(16)
        var block = [UInt8](repeating: 0xAA, count: 16 - padding.count) + padding
        var cipher = try CBCCipher(.sealing, key: SecretBytes((100..<132).map { UInt8($0) }), initial: pattern(16))
        try block.lendMutableBytes { block throws(KeyError) in
            try cipher.update(UnsafeRawBufferPointer(block), into: block)
        }
        message += block
        var mac = try RunningDigest(hmacSHA256: SecretBytes((132..<164).map { UInt8($0) }))
        try mac.update(message)
        message += try mac.finish()
        #expect(throws: RNCryptorError.malformed) { try opened(message, with: .anyKeys()) }
        message[20] ^= 1
        #expect(throws: RNCryptorError.wrongPasswordOrAltered) { try opened(message, with: .anyKeys()) }
    }

    @Test("An error says what is wrong to an application too")
    func words() {
        #expect(RNCryptorError.notRNCryptor.localizedDescription == "the message is not an RNCryptor file")
        #expect(
            RNCryptorError.needsKeys.localizedDescription == "the message was sealed with keys, not with a password")
    }

    private func secret(_ kind: RNCryptorHeader.Kind) throws -> RNCryptorSecret {
        kind == .keys ? try .anyKeys() : try .password("right")
    }
}
