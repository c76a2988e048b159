import ProtectionKeys

/// The two keys of one message, and what each is for.
struct MessageKeys: ~Copyable, Sendable {
    private let encryption: SecretBytes
    private let mac: SecretBytes

    /// 32 bytes each.
    init(encryption: consuming SecretBytes, mac: consuming SecretBytes) {
        self.encryption = encryption
        self.mac = mac
    }

    /// The HMAC of a message of which nothing but the header has come.
    borrowing func mac(after header: RNCryptorHeader) throws(RNCryptorError) -> RunningDigest {
        do throws(KeyError) {
            var mac = try RunningDigest(hmacSHA256: mac)
            try mac.update(header.bytes)
            return mac
        } catch {
            throw .cryptography(error)
        }
    }

    /// For the first block behind the header.
    borrowing func cipher(
        _ direction: CBCCipher.Direction, after header: RNCryptorHeader
    ) throws(RNCryptorError) -> CBCCipher {
        do throws(KeyError) {
            return try CBCCipher(direction, key: encryption, initial: header.initial)
        } catch {
            throw .cryptography(error)
        }
    }
}
