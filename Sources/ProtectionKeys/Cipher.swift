/// AES-256-GCM under one key, to seal: SP 800-38D. 28 bytes are added: nonce (12) before, tag (16) behind.
///
/// The key schedule lives in libcrypto's heap until this value goes, and is wiped then. One thread at a time.
public struct Sealer: ~Copyable, @unchecked Sendable {  // the context has one owner
    private let context: OpaquePointer

    /// - Parameter key: 32 bytes.
    public init(key: borrowing SecretBytes) throws(KeyError) {
        context = try key.withUnsafeBytes { key throws(KeyError) in try LibCrypto.makeGCM(key: key, sealing: true) }
    }

    deinit { LibCrypto.freeGCM(context) }

    /// Seals `text` into `output`, which has 28 bytes more.
    ///
    /// - Parameters:
    ///   - nonce: 12 bytes that were never used under this key: fresh from ``Randomness``.
    ///   - associated: authenticated, not stored.
    public mutating func seal(
        _ text: UnsafeRawBufferPointer, nonce: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        try LibCrypto.seal(context, nonce: nonce, associated: associated, text, into: output)
    }
}

/// AES-256-GCM under one key, to open.
public struct Opener: ~Copyable, @unchecked Sendable {  // the context has one owner
    private let context: OpaquePointer

    /// - Parameter key: 32 bytes.
    public init(key: borrowing SecretBytes) throws(KeyError) {
        context = try key.withUnsafeBytes { key throws(KeyError) in try LibCrypto.makeGCM(key: key, sealing: false) }
    }

    deinit { LibCrypto.freeGCM(context) }

    /// Opens nonce ‖ ciphertext ‖ tag into `output`, which has 28 bytes less.
    ///
    /// - Throws: ``KeyError/authenticationFailed``; `output` is then zero.
    public mutating func open(
        _ sealed: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        guard sealed.count >= 28, output.count == sealed.count - 28 else {
            throw .wrongLength(of: "sealed bytes", expected: output.count + 28, actual: sealed.count)
        }
        try LibCrypto.open(context, associated: associated, sealed, into: output)
    }
}
