import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// The keys of one file in use: kept while a handle of class B, C or D is open, and for one operation on class A.
package final class FileKeys {
    /// A reference to secret bytes that are kept.
    package final class Kept: Sendable {
        package let bytes: SecretBytes
        package init(_ bytes: consuming SecretBytes) { self.bytes = bytes }
    }

    private let chunkKey: SecretBytes
    private let headKey: Kept?
    private var sealer: Sealer?
    private var opener: Opener?
    /// The associated data of a chunk; its index is at byte 24.
    private var associated: [UInt8]
    /// Of class A. Properties are destroyed in the order of their declaration: this one when the keys have been wiped.
    private let use: KeyUse?

    /// - Parameters:
    ///   - associated: of a chunk, whichever.
    ///   - headKey: nil for an operation that needs chunks only.
    ///   - use: the operation that the keys are for, if they are for one only.
    package init(associated: [UInt8], chunkKey: consuming SecretBytes, headKey: Kept?, use: KeyUse? = nil) {
        self.use = use
        self.chunkKey = chunkKey
        self.headKey = headKey
        self.associated = associated
    }

    /// Lends the head key. Only for an operation that asked for it with the keys: then it is there.
    package func head() -> Kept { headKey! }

    /// Seals one chunk into `output`, which has 28 bytes more.
    package func seal(
        chunk index: UInt64, _ text: UnsafeRawBufferPointer, nonce: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(DataProtectionError) {
        do throws(KeyError) {
            if sealer == nil { sealer = try Sealer(key: chunkKey) }
            setIndex(index)
            try associated.lendBytes { associated throws(KeyError) in
                // It was just made if there was none.
                try sealer!.seal(text, nonce: nonce, associated: associated, into: output)
            }
        } catch {
            throw .cryptography(error)
        }
    }

    /// Opens one chunk into `output`, which has 28 bytes less.
    package func open(
        chunk index: UInt64, _ sealed: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        if opener == nil { opener = try Opener(key: chunkKey) }
        setIndex(index)
        try associated.lendBytes { associated throws(KeyError) in
            // It was just made if there was none.
            try opener!.open(sealed, associated: associated, into: output)
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
package struct MaskedKeys {
    /// Label, salt and part of each mask.
    private let first: [UInt8], second: [UInt8]
    private let check: [UInt8]
    private let associated: [UInt8]
    private let chunkKey: [UInt8]
    private let headKey: [UInt8]

    package init(
        chunkKey: borrowing SecretBytes, headKey: borrowing SecretBytes, of prefix: Prefix,
        under classKey: borrowing ClassKey
    ) throws(KeyError) {
        associated = prefix.associatedData(.chunk, index: 0)
        let label = Array("protectfs/1 handle mask".utf8) + [0]
        let salt = try Randomness.bytes(16)
        (first, second) = (label + salt + [1], label + salt + [2])
        let mask = try classKey.mask(first)
        self.chunkKey = Self.combine(chunkKey, mask)
        self.headKey = Self.combine(headKey, try classKey.mask(second))
        check = mask.withUnsafeBytes { Array($0[32..<64]) }
    }

    /// The keys, or nil if this is not the class key that masked them.
    package func unmask(
        with classKey: borrowing ClassKey, needsHead: Bool, use: KeyUse?
    ) throws(KeyError) -> FileKeys? {
        let mask = try classKey.mask(first)
        let isRight = mask.withUnsafeBytes { mask in
            areEqualInConstantTime(UnsafeRawBufferPointer(rebasing: mask[32..<64]), check)
        }
        guard isRight else { return nil }
        let head = needsHead ? FileKeys.Kept(Self.reveal(headKey, try classKey.mask(second))) : nil
        return FileKeys(associated: associated, chunkKey: Self.reveal(chunkKey, mask), headKey: head, use: use)
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
