/// AES-256-CBC (SP 800-38A §6.2) under one key, in whole blocks: no padding, and no authentication. For RNCryptor's messages.
///
/// The key schedule lives in libcrypto's heap until this value goes, and is wiped then. One thread at a time.
package struct CBCCipher: ~Copyable, @unchecked Sendable {  // the context has one owner
    /// Bytes of a block.
    package static let blockSize = 16
    private let context: OpaquePointer

    /// Which way.
    package enum Direction: Sendable { case sealing, opening }

    /// - Parameters:
    ///   - key: 32 bytes.
    ///   - initial: 16 bytes; random, where it is to seal.
    package init(
        _ direction: Direction, key: borrowing SecretBytes, initial: [UInt8]
    ) throws(KeyError) {
        guard key.count == 32 else { throw .wrongLength(of: "AES key", expected: 32, actual: key.count) }
        guard initial.count == Self.blockSize else {
            throw .wrongLength(of: "initial value", expected: Self.blockSize, actual: initial.count)
        }
        context = try key.withUnsafeBytes { key throws(KeyError) in
            try LibCrypto.makeCBC(key: key, initial: initial, sealing: direction == .sealing)
        }
    }

    deinit { LibCrypto.freeCBC(context) }

    /// The next blocks.
    ///
    /// - Parameters:
    ///   - input: a multiple of 16 bytes.
    ///   - output: as many; may be the same memory.
    package mutating func update(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        guard input.count % Self.blockSize == 0 else {
            let whole = input.count / Self.blockSize * Self.blockSize
            throw .wrongLength(of: "blocks", expected: whole, actual: input.count)
        }
        guard output.count == input.count else {
            throw .wrongLength(of: "output", expected: input.count, actual: output.count)
        }
        try LibCrypto.updateCBC(context, input, into: output)
    }
}
