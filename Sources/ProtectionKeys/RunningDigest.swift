/// A digest, or a MAC, of bytes that come piece by piece.
///
/// MD5 and SHA-1 are there because servers publish such sums. They show accidents only: an attacker who alters a file can make another
/// one with the same sum.
public struct RunningDigest: ~Copyable, @unchecked Sendable {  // the context has one owner
    /// What is made of the bytes.
    public enum Algorithm: String, CaseIterable, Hashable, Sendable {
        case md5, sha1, sha256, sha512

        /// In bytes.
        public var length: Int {
            switch self {
            case .md5: 16
            case .sha1: 20
            case .sha256: 32
            case .sha512: 64
            }
        }

        /// Whether nobody can make other bytes with the same digest.
        public var resistsTampering: Bool { self == .sha256 || self == .sha512 }
    }

    private enum Context {
        case digest(OpaquePointer)
        case mac(OpaquePointer)
    }
    private let context: Context
    private let length: Int

    /// A digest without a key.
    public init(_ algorithm: Algorithm) throws(KeyError) {
        context = .digest(try LibCrypto.makeDigest(algorithm))
        length = algorithm.length
    }

    /// HMAC-SHA256 (RFC 2104), 32 bytes.
    public init(hmacSHA256 key: borrowing SecretBytes) throws(KeyError) {
        context = .mac(try key.withUnsafeBytes { key throws(KeyError) in try LibCrypto.makeMAC(key: key) })
        length = 32
    }

    deinit {
        switch context {
        case .digest(let context): LibCrypto.freeDigest(context)
        case .mac(let context): LibCrypto.freeMAC(context)
        }
    }

    /// Takes the next piece.
    public mutating func update(_ bytes: UnsafeRawBufferPointer) throws(KeyError) {
        switch context {
        case .digest(let context): try LibCrypto.updateDigest(context, bytes)
        case .mac(let context): try LibCrypto.updateMAC(context, bytes)
        }
    }

    /// Takes the next piece.
    public mutating func update(_ bytes: [UInt8]) throws(KeyError) {
        let result: Result<Void, KeyError> = bytes.withUnsafeBytes { bytes in
            do throws(KeyError) { return .success(try update(bytes)) } catch { return .failure(error) }
        }
        try result.get()
    }

    /// What the pieces so far give; more can be added.
    package borrowing func valueSoFar() throws(KeyError) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: length)
        let context = context
        try output.lendMutableBytes { output throws(KeyError) in
            switch context {
            case .digest(let context): try LibCrypto.digestSoFar(context, into: output)
            case .mac(let context): try LibCrypto.macSoFar(context, into: output)
            }
        }
        return output
    }

    /// What all pieces together give; nothing can be added any more.
    public consuming func finish() throws(KeyError) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: length)
        let context = context
        try output.lendMutableBytes { output throws(KeyError) in
            switch context {
            case .digest(let context): try LibCrypto.finishDigest(context, into: output)
            case .mac(let context): try LibCrypto.finishMAC(context, into: output)
            }
        }
        return output
    }
}
