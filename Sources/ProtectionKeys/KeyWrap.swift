/// A key under another key: safe to store.
public struct WrappedKey: Hashable, Sendable {
    /// 40 bytes (AES key wrap) or 72 bytes (class B).
    public let bytes: [UInt8]

    /// Takes stored bytes; whether they are a key shows when they are unwrapped.
    public init(bytes: [UInt8]) { self.bytes = bytes }
}

/// AES-256 key wrap of 32-byte keys: RFC 3394 §2.2, SP 800-38F §6.2.
enum KeyWrap {
    /// 40 bytes.
    static func wrap(_ key: borrowing SecretBytes, under kek: borrowing SecretBytes) throws(KeyError) -> WrappedKey {
        var wrapped = [UInt8](repeating: 0, count: key.count + 8)
        try kek.withUnsafeBytes { kek throws(KeyError) in
            try key.withUnsafeBytes { key throws(KeyError) in
                try wrapped.lendMutableBytes { wrapped throws(KeyError) in
                    try LibCrypto.wrap(kek: kek, key: key, into: wrapped)
                }
            }
        }
        return WrappedKey(bytes: wrapped)
    }

    /// - Throws: ``KeyError/unwrapFailed`` if the integrity value is wrong; no partial key is ever returned.
    static func unwrap(_ wrapped: WrappedKey, under kek: borrowing SecretBytes) throws(KeyError) -> SecretBytes {
        guard wrapped.bytes.count == 40 else {
            throw .wrongLength(of: "wrapped key", expected: 40, actual: wrapped.bytes.count)
        }
        return try kek.withUnsafeBytes { kek throws(KeyError) in
            try SecretBytes(byteCount: 32) { key throws(KeyError) in
                try wrapped.bytes.lendBytes { wrapped throws(KeyError) in
                    try LibCrypto.unwrap(kek: kek, wrapped: wrapped, into: key)
                }
            }
        }
    }
}
