import ProtectionFormat
import ProtectionKeys

/// The keys of one file in use: kept while a handle of class B, C or D is open, and for one operation on class A.
final class FileKeys {
    /// A reference to secret bytes that are kept.
    final class Kept {
        let bytes: SecretBytes
        init(_ bytes: consuming SecretBytes) { self.bytes = bytes }
    }
    private final class KeptSealer {
        var sealer: Sealer
        init(_ sealer: consuming Sealer) { self.sealer = sealer }
    }
    private final class KeptOpener {
        var opener: Opener
        init(_ opener: consuming Opener) { self.opener = opener }
    }

    private let chunkKey: Kept
    private let headKey: Kept?
    private var sealer: KeptSealer?
    private var opener: KeptOpener?
    /// The associated data of a chunk; its index is at byte 24.
    private var associated: [UInt8]
    /// Of class A. Properties are destroyed in the order of their declaration: this one when the keys have been wiped.
    private let use: KeyUse?

    /// - Parameters:
    ///   - headKey: nil for an operation that needs chunks only.
    ///   - use: the operation that the keys are for, if they are for one only.
    init(prefix: Prefix, chunkKey: consuming SecretBytes, headKey: Kept?, use: KeyUse? = nil) {
        self.use = use
        self.chunkKey = Kept(chunkKey)
        self.headKey = headKey
        associated = prefix.associatedData(.chunk, index: 0)
    }

    /// Lends the head key; the caller asked for it when it asked for the keys.
    func head() -> Kept { headKey! }

    /// Seals one chunk into `output`, which has 28 bytes more.
    func seal(
        chunk index: UInt64, _ text: UnsafeRawBufferPointer, nonce: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(DataProtectionError) {
        do throws(KeyError) {
            if sealer == nil { sealer = KeptSealer(try Sealer(key: chunkKey.bytes)) }
            setIndex(index)
            try associated.lendBytes { associated throws(KeyError) in
                try sealer!.sealer.seal(text, nonce: nonce, associated: associated, into: output)
            }
        } catch {
            throw .cryptography(error)
        }
    }

    /// Opens one chunk into `output`, which has 28 bytes less.
    func open(
        chunk index: UInt64, _ sealed: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        if opener == nil { opener = KeptOpener(try Opener(key: chunkKey.bytes)) }
        setIndex(index)
        try associated.lendBytes { associated throws(KeyError) in
            try opener!.opener.open(sealed, associated: associated, into: output)
        }
    }

    private func setIndex(_ index: UInt64) {
        for byte in 0..<8 { associated[24 + byte] = UInt8(truncatingIfNeeded: index >> (8 * byte)) }
    }
}

/// What a handle on a class A file keeps between operations: its keys, masked under class key A. DESIGN.md, "Handles".
///
/// Mask = SHA-512(00000001 ‖ class key A ‖ label ‖ salt ‖ part), SP 800-56C §4. Without the class key it is random bytes; the check tells a
/// class key that somebody planted in the ring from the right one without deriving its id.
struct MaskedKeys {
    private let salt: [UInt8]
    private let check: [UInt8]
    private let chunkKey: [UInt8]
    private let headKey: [UInt8]

    init(
        chunkKey: borrowing SecretBytes, headKey: borrowing SecretBytes, under classKey: borrowing ClassKey
    ) throws(KeyError) {
        salt = try Randomness.bytes(16)
        let first = try classKey.mask(Self.message(salt, 1))
        let second = try classKey.mask(Self.message(salt, 2))
        self.chunkKey = Self.combine(chunkKey, first)
        self.headKey = Self.combine(headKey, second)
        check = first.withUnsafeBytes { Array($0[32..<64]) }
    }

    /// The keys, or nil if this is not the class key that masked them.
    func unmask(
        with classKey: borrowing ClassKey, prefix: Prefix, needsHead: Bool, use: KeyUse
    ) throws(KeyError) -> FileKeys? {
        let first = try classKey.mask(Self.message(salt, 1))
        guard areEqualInConstantTime(first.withUnsafeBytes { Array($0[32..<64]) }, check) else { return nil }
        let head = needsHead ? FileKeys.Kept(Self.reveal(headKey, try classKey.mask(Self.message(salt, 2)))) : nil
        return FileKeys(prefix: prefix, chunkKey: Self.reveal(chunkKey, first), headKey: head, use: use)
    }

    private static func message(_ salt: [UInt8], _ part: UInt8) -> [UInt8] {
        Array("protectfs/1 handle mask".utf8) + [0] + salt + [part]
    }

    private static func combine(_ key: borrowing SecretBytes, _ mask: borrowing SecretBytes) -> [UInt8] {
        key.withUnsafeBytes { key in mask.withUnsafeBytes { mask in (0..<32).map { key[$0] ^ mask[$0] } } }
    }

    private static func reveal(_ masked: [UInt8], _ mask: borrowing SecretBytes) -> SecretBytes {
        mask.withUnsafeBytes { mask in
            SecretBytes(byteCount: 32) { key in
                for index in 0..<32 { key[index] = masked[index] ^ mask[index] }
            }
        }
    }
}
