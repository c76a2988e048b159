/// Where each chunk of a protected file lies. Arithmetic only: no keys, no I/O.
///
///     offset            bytes      field                                        FORMAT.md §3
///     8192 + i·(C+28)   ≤ C + 28   chunk i: nonce (12) ‖ ciphertext (≤ C) ‖ tag (16)
///
/// Example, C = 4096: 5,000 bytes end at 8,192 + 4,124 + 932 = 13,248.
public struct ChunkLayout: Hashable, Sendable {
    /// The plaintext bytes of a whole chunk: 4,096 or 65,536.
    public let chunkSize: Int

    /// 4 KiB chunks, for files that are changed in place.
    public static let small = ChunkLayout(exponent: 12)!
    /// 64 KiB chunks, for files that are written whole.
    public static let large = ChunkLayout(exponent: 16)!

    /// Where the first chunk begins, in bytes.
    public static let firstChunk = 8192
    /// What sealing adds to a chunk, in bytes.
    public static let overhead = 28
    /// The largest plaintext: 2^60 bytes.
    public static let maximumSize = UInt64(1) << 60
    /// The largest file that lies in the head itself, in bytes.
    public static let maximumInline = 3584

    /// - Parameter exponent: 12 or 16.
    public init?(exponent: UInt8) {
        guard exponent == 12 || exponent == 16 else { return nil }
        chunkSize = 1 << Int(exponent)
    }

    /// The stored form of the chunk size.
    public var exponent: UInt8 { UInt8(chunkSize.trailingZeroBitCount) }

    /// How many chunks hold `size` bytes.
    public func chunkCount(size: UInt64) -> UInt64 {
        size / UInt64(chunkSize) + (size % UInt64(chunkSize) == 0 ? 0 : 1)
    }

    /// The file offset of chunk `index`'s home, in bytes. `index` ≤ 2^48.
    public func home(_ index: UInt64) -> UInt64 {
        UInt64(Self.firstChunk) + index * UInt64(chunkSize + Self.overhead)
    }

    /// The plaintext bytes of chunk `index` in a file of `size` bytes.
    public func plainLength(_ index: UInt64, size: UInt64) -> Int {
        let start = index * UInt64(chunkSize)
        return size <= start ? 0 : Int(min(UInt64(chunkSize), size - start))
    }

    /// The chunk that plaintext byte `offset` is in.
    public func index(of offset: UInt64) -> UInt64 { offset / UInt64(chunkSize) }

    /// The length in bytes that a cleanly closed file has. FORMAT.md §3.7.
    public func extent(of content: ContentRecord, generation: UInt64) -> UInt64 {
        if content.isInline { return generation == 1 ? UInt64(Head.length) : UInt64(Self.firstChunk) }
        guard let last = content.holes.lastIndexOutside(count: content.chunkCount) else {
            return UInt64(Self.firstChunk)
        }
        return home(last) + UInt64(plainLength(last, size: content.size) + Self.overhead)
    }
}
