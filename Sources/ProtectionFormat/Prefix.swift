import ProtectionKeys

/// The first 64 bytes of both heads, fixed for the life of the file. FORMAT.md §3.2.
///
///     offset  bytes  field
///     0       8      magic 89 50 46 53 0D 0A 1A 0A
///     8       2      format version: 1
///     10      2      head length: 4096
///     12      4      incompatible features: 0
///     16      1      cipher: 1 = AES-256-GCM
///     17      1      chunk size as a power of two: 12 or 16
///     18      6      zero
///     24      16     file id
///     40      24     zero
public struct Prefix: Hashable, Sendable {
    /// Names the file in everything sealed under its keys.
    public let fileID: FileID
    /// Where its chunks lie.
    public let layout: ChunkLayout

    /// What every protected file begins with.
    public static let magic: [UInt8] = [0x89, 0x50, 0x46, 0x53, 0x0D, 0x0A, 0x1A, 0x0A]
    static let length = 64
    static let version: UInt16 = 1

    /// A prefix of format 1.
    public init(fileID: FileID, layout: ChunkLayout) {
        self.fileID = fileID
        self.layout = layout
    }

    init(decoding bytes: [UInt8]) throws(FormatError) {
        var reader = ByteReader(bytes, to: Self.length, layer: .head)
        guard try reader.take(8) == Self.magic else { throw .notOurs }
        let version = try reader.integer(UInt16.self)
        guard version == Self.version else { throw .unsupported(what: "format version \(version)") }
        try reader.require(reader.integer(UInt16.self) == UInt16(Head.length), "head length")
        let features = try reader.integer(UInt32.self)
        guard features == 0 else { throw .unsupported(what: "features \(String(features, radix: 16))") }
        let cipher = try reader.integer(UInt8.self)
        guard cipher == 1 else { throw .unsupported(what: "cipher \(cipher)") }
        let exponent = try reader.integer(UInt8.self)
        guard let layout = ChunkLayout(exponent: exponent) else {
            throw .unsupported(what: "chunk size 2^\(exponent)")
        }
        try reader.zero(6)
        let id = try reader.take(16)
        try reader.zero(24)
        self.layout = layout
        fileID = try! FileID(bytes: id)  // 16 bytes were taken
    }

    var encoded: [UInt8] {
        var bytes = Self.magic
        bytes.append(littleEndian: Self.version)
        bytes.append(littleEndian: UInt16(Head.length))
        bytes.append(littleEndian: UInt32(0))
        bytes += [1, layout.exponent]
        bytes.appendZero(6)
        bytes += fileID.bytes
        bytes.pad(to: Self.length)
        return bytes
    }

    /// The associated data of a seal: 36 bytes and `extra`. FORMAT.md §3.5.
    public func associatedData(_ kind: SealKind, index: UInt64, extra: [UInt8] = []) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(36 + extra.count)
        bytes += [0x50, 0x46, 0x53, 0x31]
        bytes.append(littleEndian: Self.version)
        bytes += [kind.rawValue, 0]
        bytes += fileID.bytes
        bytes.append(littleEndian: index)
        bytes.append(littleEndian: UInt32(layout.chunkSize))
        bytes += extra
        return bytes
    }
}

/// What a seal is for; part of its associated data. FORMAT.md §3.5.
public enum SealKind: UInt8, Sendable {
    case wrapRecord = 1
    case contentRecord = 2
    case inlineFile = 3
    case chunk = 4
    case joinNote = 5
    case latePage = 6
}
