/// The key of one stored secret: 32 random bytes that seal one value once. Every change of a secret makes a new one.
///
/// FORMAT.md §2.15. The value is bound to everything that is stored of it in clear: what is moved to another row, or stands under
/// other attributes, does not open.
public struct ItemKey: ~Copyable, Sendable {
    /// Bytes that sealing adds: nonce (12) and tag (16).
    public static let overhead = 28

    fileprivate let secret: SecretBytes

    /// A new key.
    public static func random() throws(KeyError) -> ItemKey {
        ItemKey(secret: try SecretBytes(randomByteCount: 32))
    }

    init(secret: consuming SecretBytes) { self.secret = secret }

    /// Seals the value: nonce (12) ‖ ciphertext ‖ tag (16). AES-256-GCM, SP 800-38D.
    ///
    /// Consumes the key: one key seals one value.
    /// - Parameter attributes: what the value is bound to.
    public consuming func seal(
        _ value: borrowing SecretBytes, boundTo attributes: [UInt8]
    ) throws(KeyError) -> [UInt8] {
        var sealer = try Sealer(key: secret)
        let nonce = try Randomness.bytes(12)
        var sealed = [UInt8](repeating: 0, count: value.count + Self.overhead)
        try value.withUnsafeBytes { value throws(KeyError) in
            try nonce.lendBytes { nonce throws(KeyError) in
                try attributes.lendBytes { attributes throws(KeyError) in
                    try sealed.lendMutableBytes { sealed throws(KeyError) in
                        try sealer.seal(value, nonce: nonce, associated: attributes, into: sealed)
                    }
                }
            }
        }
        return sealed
    }

    /// Opens a value.
    ///
    /// - Throws: ``KeyError/authenticationFailed``: value or attributes were altered, or are not of one another.
    public borrowing func open(_ sealed: [UInt8], boundTo attributes: [UInt8]) throws(KeyError) -> SecretBytes {
        guard sealed.count >= Self.overhead else { throw .authenticationFailed }
        var opener = try Opener(key: secret)
        return try SecretBytes(byteCount: sealed.count - Self.overhead) { value throws(KeyError) in
            try sealed.lendBytes { sealed throws(KeyError) in
                try attributes.lendBytes { attributes throws(KeyError) in
                    try opener.open(sealed, associated: attributes, into: value)
                }
            }
        }
    }
}

extension ClassKey {
    /// Wraps the key of a secret: 40 bytes. RFC 3394 under FORMAT.md §1.1 row 17; with a device key under row 18.
    ///
    /// - Precondition: this is a class key of secrets.
    public borrowing func wrap(_ item: borrowing ItemKey) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(item.secret, under: try derived(.secretWrap))
    }

    /// The same for a secret of this device only: to open it takes the device key too.
    public borrowing func wrap(
        _ item: borrowing ItemKey, with device: borrowing DeviceKey
    ) throws(KeyError) -> WrappedKey {
        try KeyWrap.wrap(item.secret, under: try derived(.deviceSecretWrap, salt: device.secret))
    }

    /// Recovers the key of a secret.
    ///
    /// - Parameter wrapped: 40 bytes.
    /// - Throws: ``KeyError/unwrapFailed``: another class key, or altered.
    public borrowing func unwrapItem(_ wrapped: WrappedKey) throws(KeyError) -> ItemKey {
        ItemKey(secret: try KeyWrap.unwrap(wrapped, under: try derived(.secretWrap)))
    }

    /// Recovers the key of a secret of this device only.
    ///
    /// - Throws: ``KeyError/unwrapFailed``: another class key or device key, or altered.
    public borrowing func unwrapItem(
        _ wrapped: WrappedKey, with device: borrowing DeviceKey
    ) throws(KeyError) -> ItemKey {
        ItemKey(secret: try KeyWrap.unwrap(wrapped, under: try derived(.deviceSecretWrap, salt: device.secret)))
    }
}
