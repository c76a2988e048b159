import ProtectionKeys

/// What the file contains. FORMAT.md §3.4.
///
///     offset     bytes  field
///     0          8      content counter
///     8          8      size
///     16         8      chunk count
///     24         8      redo offset
///     32         8      epoch
///     40         8      seal count
///     48         4      inline length, or FFFFFFFF
///     52         2      r: number of hole runs
///     54         2      zero
///     56         32     zero
///     88         16·r   hole runs
///     88 + 16·r  28     seal
public struct ContentRecord: Hashable, Sendable {
    /// Raised by every commit of content; from 0.
    public var counter: UInt64
    /// Plaintext bytes.
    public var size: UInt64
    /// 0 for an inline file.
    public var chunkCount: UInt64
    /// Where redo records begin; 0 = there is no area.
    public var redoOffset: UInt64 = 0
    /// Which records are this area's; 0 = there is no area.
    public var epoch: UInt64 = 0
    /// Seals made under this file key so far. FORMAT.md §3.8.
    public var sealCount: UInt64
    /// Whether the bytes lie in the head itself.
    public var isInline: Bool
    /// Chunks that read as zeros.
    public var holes = ChunkRuns()

    static let fixedLength = 88
    static let maximumLength = fixedLength + 16 * ChunkRuns.maximumRuns + 28
    private static let notInline = UInt32.max
    private static let maximumRedoOffset = UInt64(1) << 62

    /// The record of an inline file of `size` bytes.
    public init(inline size: UInt64, counter: UInt64, sealCount: UInt64) {
        self.counter = counter
        self.size = size
        chunkCount = 0
        self.sealCount = sealCount
        isInline = true
    }

    /// The record of a chunked file.
    public init(size: UInt64, layout: ChunkLayout, holes: ChunkRuns, counter: UInt64, sealCount: UInt64) {
        self.counter = counter
        self.size = size
        chunkCount = layout.chunkCount(size: size)
        self.sealCount = sealCount
        isInline = false
        self.holes = holes
    }

    /// How many bytes the record takes, its seal included, by the run count it begins with.
    static func length(at offset: Int, of bytes: [UInt8]) throws(FormatError) -> Int {
        var reader = ByteReader(bytes, from: offset + 52, layer: .contentRecord)
        let runs = Int(try reader.integer(UInt16.self))
        try reader.require(runs <= ChunkRuns.maximumRuns, "number of hole runs")
        return fixedLength + 16 * runs + 28
    }

    /// Decodes the clear bytes, without the seal.
    init(decoding bytes: [UInt8], layout: ChunkLayout) throws(FormatError) {
        var reader = ByteReader(bytes, layer: .contentRecord)
        counter = try reader.integer(UInt64.self)
        try reader.require(counter < UInt64(1) << 62, "counter")
        size = try reader.integer(UInt64.self)
        chunkCount = try reader.integer(UInt64.self)
        redoOffset = try reader.integer(UInt64.self)
        epoch = try reader.integer(UInt64.self)
        sealCount = try reader.integer(UInt64.self)
        try reader.require(sealCount < UInt64(1) << 62, "seal count")
        let inline = try reader.integer(UInt32.self)
        let runCount = Int(try reader.integer(UInt16.self))
        try reader.require(runCount <= ChunkRuns.maximumRuns, "number of hole runs")
        try reader.zero(2 + 32)
        isInline = inline != Self.notInline
        try reader.require(size <= ChunkLayout.maximumSize, "size")
        if isInline {
            let isConsistent = UInt64(inline) == size && size <= UInt64(ChunkLayout.maximumInline)
            try reader.require(isConsistent && chunkCount == 0 && runCount == 0 && redoOffset == 0, "inline length")
        } else {
            try reader.require(chunkCount == layout.chunkCount(size: size), "chunk count")
        }
        try reader.require((redoOffset == 0) == (epoch == 0), "epoch")
        if redoOffset != 0 {
            let isBeyond = redoOffset >= layout.home(chunkCount) && redoOffset <= Self.maximumRedoOffset
            try reader.require(isBeyond && redoOffset % 4096 == 0, "redo offset")
        }
        var runs: [Range<UInt64>] = []
        for _ in 0..<runCount {
            let first = try reader.integer(UInt64.self)
            let count = try reader.integer(UInt64.self)
            try reader.require(count >= 1 && first < chunkCount && count <= chunkCount - first, "hole run")
            runs.append(first..<first + count)
        }
        guard let holes = ChunkRuns(runs: runs) else { throw .damaged(.contentRecord, reason: "order of hole runs") }
        self.holes = holes
    }

    /// The bytes before the seal.
    var clear: [UInt8] {
        var bytes: [UInt8] = []
        for field in [counter, size, chunkCount, redoOffset, epoch, sealCount] { bytes.append(littleEndian: field) }
        bytes.append(littleEndian: isInline ? UInt32(size) : Self.notInline)
        bytes.append(littleEndian: UInt16(holes.runs.count))
        bytes.pad(to: Self.fixedLength)
        for run in holes.runs {
            bytes.append(littleEndian: run.lowerBound)
            bytes.append(littleEndian: run.upperBound - run.lowerBound)
        }
        return bytes
    }

    /// Seals the record: 116 to 628 bytes. `headKey` is the file's.
    public func sealed(in prefix: Prefix, under headKey: borrowing SecretBytes) throws(KeyError) -> SealedContent {
        let clear = clear
        let associated = prefix.associatedData(.contentRecord, index: counter, extra: prefix.encoded + clear)
        return SealedContent(record: self, bytes: clear + (try emptySeal(under: headKey, associated: associated)))
    }
}

/// A content record as it is stored, seal included: what goes, byte for byte, from a redo record into the head.
public struct SealedContent: Hashable, Sendable {
    /// The decoded fields.
    public let record: ContentRecord
    /// 116 to 628 bytes.
    public let bytes: [UInt8]

    init(record: ContentRecord, bytes: [UInt8]) {
        self.record = record
        self.bytes = bytes
    }

    package init(decoding bytes: [UInt8], layout: ChunkLayout) throws(FormatError) {
        record = try ContentRecord(decoding: Array(bytes.dropLast(28)), layout: layout)
        self.bytes = bytes
    }

    /// Checks the seal.
    ///
    /// - Throws: `damaged(.contentRecord)`.
    public func authenticate(in prefix: Prefix, under headKey: borrowing SecretBytes) throws(FormatError) {
        let clear = Array(bytes.dropLast(28))
        let associated = prefix.associatedData(.contentRecord, index: record.counter, extra: prefix.encoded + clear)
        do {
            try openEmptySeal(Array(bytes.suffix(28)), under: headKey, associated: associated)
        } catch {
            throw .damaged(.contentRecord, reason: "authentication failed")
        }
    }
}
