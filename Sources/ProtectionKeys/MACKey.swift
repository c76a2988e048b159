/// A key for HMAC-SHA256 (RFC 2104) with one use.
public struct MACKey: ~Copyable, Sendable {
    private let secret: SecretBytes

    package init(secret: consuming SecretBytes) { self.secret = secret }

    /// The 32-byte tag of `message`.
    public borrowing func tag(of message: [UInt8]) throws(KeyError) -> [UInt8] {
        try message.lendBytes { message throws(KeyError) in try tag(of: message) }
    }

    /// The 32-byte tag of `message`, which may be secret.
    public borrowing func tag(of message: UnsafeRawBufferPointer) throws(KeyError) -> [UInt8] {
        var tag = [UInt8](repeating: 0, count: 32)
        try secret.withUnsafeBytes { key throws(KeyError) in
            try tag.lendMutableBytes { tag throws(KeyError) in
                try LibCrypto.hmacSHA256(key: key, message, into: tag)
            }
        }
        return tag
    }

    /// Whether `tag` is the tag of `message`, compared in constant time.
    public borrowing func isValid(_ tag: [UInt8], for message: [UInt8]) throws(KeyError) -> Bool {
        areEqualInConstantTime(tag, try self.tag(of: message))
    }
}
