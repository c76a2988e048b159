import ProtectionKeys

/// A commit that overwrites: what is new lies behind the file until it is put in place. FORMAT.md §3.6.
///
/// A record names its file and area, carries whole sealed chunks and the content record that holds after it, and is judged without a
/// key. So records can be kept anywhere. A daemon that serves a whole directory could append the records of many files to one journal,
/// flush that once for all of them, and copy each record behind its file's redo offset later, or after a crash. Only opening an area
/// needs a flush of the file itself. Nothing in format 1 has to change for that.
///
///     offset       bytes  field
///     0            8      magic `PFSREDO1`
///     8            16     file id
///     24           8      epoch
///     32           8      length, ≤ 2^26
///     40           4      n: number of chunks
///     44           4      k: length of the content record
///     48           k      content record
///     …                   n × (index 8, length m 4, zero 4, sealed chunk m)
///     length − 32  32     SHA-256 of all before
public struct RedoRecord: Sendable {
    /// The state after this commit.
    public let content: SealedContent
    /// Where each sealed chunk lies in the record.
    public let chunks: [Place]

    /// A sealed chunk within a record.
    public struct Place: Hashable, Sendable {
        /// The chunk's index.
        public let index: UInt64
        /// Bytes from the beginning of the record.
        public let offset: Int
        /// Bytes of the sealed chunk.
        public let length: Int
    }

    /// The first 48 bytes.
    public struct Header: Sendable {
        /// Bytes of the whole record.
        public let length: Int
        let chunkCount: Int
        let contentLength: Int
    }

    /// How many bytes of records a reader follows.
    public static let maximumAreaLength = UInt64(1) << 28
    /// The bytes of a header.
    public static let headerLength = 48
    /// The epoch of a mark: a record of no area, which a writer puts behind the room for its records. FORMAT.md §4 rule 16.
    public static let noArea: UInt64 = 0
    static let magic = Array("PFSREDO1".utf8)
    static let maximumLength = 1 << 26
    private static let epochOffset = 24
    private static let checkLength = 32

    /// Reads a header; nil where no record of this file and epoch begins.
    public static func header(decoding bytes: [UInt8], file: FileID, epoch: UInt64) -> Header? {
        var reader = ByteReader(bytes, layer: .redoRecord)
        guard let found = try? reader.take(8), found == magic, let id = try? reader.take(16), id == file.bytes,
            let ownEpoch = try? reader.integer(UInt64.self), ownEpoch == epoch,
            let length = try? reader.integer(UInt64.self), let chunkCount = try? reader.integer(UInt32.self),
            let contentLength = try? reader.integer(UInt32.self)
        else { return nil }
        let smallest = headerLength + ContentRecord.fixedLength + 28 + checkLength
        guard length >= UInt64(smallest), length <= UInt64(maximumLength) else { return nil }
        return Header(length: Int(length), chunkCount: Int(chunkCount), contentLength: Int(contentLength))
    }

    /// The first bytes of every record of a file, in whatever area.
    public static func start(in file: FileID) -> [UInt8] { magic + file.bytes }

    /// The same for a record of any area of this file, which may be over.
    public static func header(decoding bytes: [UInt8], file: FileID) -> Header? {
        guard bytes.count >= headerLength else { return nil }
        var reader = ByteReader(bytes, from: epochOffset, layer: .redoRecord)
        guard let epoch = try? reader.integer(UInt64.self) else { return nil }
        return header(decoding: bytes, file: file, epoch: epoch)
    }

    /// The counter in the content record of a whole record, unverified; nil if there is none, or if the record is a mark.
    public static func contentCounter(decoding bytes: [UInt8]) -> UInt64? {
        var epoch = ByteReader(bytes, from: epochOffset, layer: .redoRecord)
        if (try? epoch.integer(UInt64.self)) == noArea { return nil }
        var reader = ByteReader(bytes, from: headerLength, layer: .redoRecord)
        return try? reader.integer(UInt64.self)
    }

    /// Whether the check of a whole record is good; if not, it was never acknowledged and the area ends before it.
    public static func isCheckGood(_ bytes: [UInt8]) throws(KeyError) -> Bool {
        guard bytes.count > checkLength else { return false }
        let digest = try bytes.lendBytes { all throws(KeyError) in
            try Digest.sha256(UnsafeRawBufferPointer(rebasing: all.dropLast(checkLength)))
        }
        return digest.elementsEqual(bytes.suffix(checkLength))
    }

    /// Decodes a record whose check is good.
    ///
    /// - Parameters:
    ///   - previous: the content record before this one: the head's, or the last record's.
    ///   - redoOffset: where the area begins.
    public init(
        decoding bytes: [UInt8], header: Header, layout: ChunkLayout, after previous: ContentRecord, redoOffset: UInt64
    ) throws(FormatError) {
        var reader = ByteReader(
            bytes, from: Self.headerLength, to: header.length - Self.checkLength, layer: .redoRecord)
        let contentBytes = try reader.take(header.contentLength)
        guard contentBytes.count >= ContentRecord.fixedLength + 28,
            try ContentRecord.length(at: 0, of: contentBytes) == contentBytes.count
        else { throw .damaged(.redoRecord, reason: "length of the content record") }
        content = try SealedContent(decoding: contentBytes, layout: layout)
        let record = content.record
        let isClosing = record.redoOffset == 0 && !record.isInline && record.counter == previous.counter + 1
        try reader.require(isClosing && layout.home(record.chunkCount) <= redoOffset, "content record")
        var places: [Place] = []
        for _ in 0..<header.chunkCount {
            let index = try reader.integer(UInt64.self)
            let length = Int(try reader.integer(UInt32.self))
            try reader.zero(4)
            let isInside = index < record.chunkCount && !record.holes.contains(index)
            try reader.require(isInside && places.last.map { $0.index < index } ?? true, "chunk index")
            let exact = layout.plainLength(index, size: record.size) + ChunkLayout.overhead
            try reader.require(length == exact, "chunk length")
            places.append(Place(index: index, offset: reader.offset, length: length))
            _ = try reader.take(length)
        }
        try reader.require(reader.remaining == 0, "length")
        chunks = places
    }

    private init(content: SealedContent, chunks: [Place]) {
        self.content = content
        self.chunks = chunks
    }

    /// Puts a record together. `chunks` ascend by index.
    public static func encode(
        file: FileID, epoch: UInt64, content: SealedContent, chunks: [(index: UInt64, sealed: [UInt8])]
    ) throws(KeyError) -> (bytes: [UInt8], record: RedoRecord) {
        let length = headerLength + content.bytes.count + chunks.reduce(0) { $0 + 16 + $1.sealed.count } + checkLength
        var bytes: [UInt8] = []
        bytes.reserveCapacity(length)
        bytes += magic + file.bytes
        bytes.append(littleEndian: epoch)
        bytes.append(littleEndian: UInt64(length))
        bytes.append(littleEndian: UInt32(chunks.count))
        bytes.append(littleEndian: UInt32(content.bytes.count))
        bytes += content.bytes
        var places: [Place] = []
        for chunk in chunks {
            bytes.append(littleEndian: chunk.index)
            bytes.append(littleEndian: UInt32(chunk.sealed.count))
            bytes.append(littleEndian: UInt32(0))
            places.append(Place(index: chunk.index, offset: bytes.count, length: chunk.sealed.count))
            bytes += chunk.sealed
        }
        bytes += try Digest.sha256(bytes)
        return (bytes, RedoRecord(content: content, chunks: places))
    }
}
