import Foundation
import ProtectionKeys
import Testing

@testable import RNCryptorFormat

/// The format's own vectors judge. They are those of RNCryptor-Spec; version 2 has none with keys.
@Suite struct VectorTests {
    @Test func everyVectorIsThere() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Vector.directory.path)
        let counts = try folders.reduce(into: [:]) { $0[$1] = try Vector.all(in: $1).count }
        #expect(counts == ["v2-kdf": 4, "v2-password": 1, "v3-kdf": 6, "v3-key": 4, "v3-password": 6])
    }

    @Test(arguments: try Vector.all(in: "v3-password") + Vector.all(in: "v3-key"))
    func sealsAndOpens(vector: Vector) throws {
        let (text, message) = (try vector.bytes("text"), try vector.bytes("message"))
        let header = try header(of: vector)
        #expect(header.version == 3)
        #expect(try opened(message, with: secret(of: vector)) == text)
        for pieces in [[max(1, text.count)], [1], [7, 16, 3]] {
            let ours = try sealed(text, RNCryptorSealer(secret(of: vector), header), pieces: pieces)
            #expect(hexadecimal(ours) == hexadecimal(message))
        }
    }

    @Test(arguments: try Vector.all(in: "v2-password"))
    func opensVersion2(vector: Vector) throws {
        let message = try vector.bytes("message")
        #expect(try header(of: vector).bytes == Array(message.prefix(34)))
        #expect(try opened(message, with: secret(of: vector)) == vector.bytes("text"))
    }

    /// Both keys of a message come from the same derivation, so a vector is one for either.
    @Test(arguments: try Vector.all(in: "v2-kdf") + Vector.all(in: "v3-kdf"))
    func derivesKeys(vector: Vector) throws {
        let secret = try RNCryptorSecret.password(vector.text("password"))
        let salt = try vector.bytes("salt")
        let header = RNCryptorHeader(
            version: try vector.version(), kind: .password, encryptionSalt: salt, macSalt: salt,
            initial: [UInt8](repeating: 0, count: 16))
        let keys = try secret.keys(for: header)
        let expected = MessageKeys(
            encryption: SecretBytes(try vector.bytes("key")), mac: SecretBytes(try vector.bytes("key")))
        #expect(try fingerprint(keys, header) == fingerprint(expected, header))
        #expect(try secret.cutKeys(for: header) == nil)
    }

    /// What both keys make of a message without text.
    private func fingerprint(_ keys: borrowing MessageKeys, _ header: RNCryptorHeader) throws -> [UInt8] {
        var block = [UInt8](repeating: 0, count: 16)
        var cipher = try keys.cipher(.sealing, after: header)
        try block.lendMutableBytes { block throws(KeyError) in
            try cipher.update(UnsafeRawBufferPointer(block), into: block)
        }
        return block + (try keys.mac(after: header).finish())
    }

    private func secret(of vector: Vector) throws -> RNCryptorSecret {
        guard vector.name.contains("-key/") else { return try .password(vector.text("password")) }
        return try .keys(vector.bytes("encryption key") + vector.bytes("hmac key"))
    }

    private func header(of vector: Vector) throws -> RNCryptorHeader {
        let isOfKeys = vector.name.contains("-key/")
        return RNCryptorHeader(
            version: try vector.version(), kind: isOfKeys ? .keys : .password,
            encryptionSalt: isOfKeys ? [] : try vector.bytes("encryption salt"),
            macSalt: isOfKeys ? [] : try vector.bytes("hmac salt"), initial: try vector.bytes("initial"))
    }
}
