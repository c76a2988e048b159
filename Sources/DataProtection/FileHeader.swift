public import ProtectionFormat
public import ProtectionKeys

/// The clear fields of a head. FORMAT.md §§3.2 to 3.4.
public struct FileHeader: Hashable, Sendable {
    /// 16 bytes that name the file.
    public let fileID: [UInt8]
    /// Plaintext bytes of a whole chunk.
    public let chunkSize: Int
    public let protectionClass: ProtectionClass
    public let keybag: KeybagUUID
    /// The generation of the class key.
    public let generation: UInt32
    /// Plaintext bytes.
    public let size: UInt64
    /// 0 for a file that lies in its head.
    public let chunkCount: UInt64
    public let isInline: Bool
    /// Runs of chunks that read as zeros.
    public let holes: [Range<UInt64>]
    /// Seals made under the file's key; 2^31 at most.
    public let sealCount: UInt64
    /// Raised by every class change.
    public let wrapCounter: UInt64
    /// Raised by every commit.
    public let contentCounter: UInt64
    /// Where records begin; 0 without an area.
    public let redoOffset: UInt64
    /// Where the file was made, as its last wrapper claims.
    public let origin: OriginMark

    /// - Parameter record: of the head, or of the last redo record in force.
    init(_ head: Head, _ record: ContentRecord) {
        fileID = head.prefix.fileID.bytes
        chunkSize = head.prefix.layout.chunkSize
        protectionClass = head.wrap.classKey.protectionClass
        keybag = head.wrap.classKey.keybag
        generation = head.wrap.classKey.generation
        size = record.size
        chunkCount = record.chunkCount
        isInline = record.isInline
        holes = record.holes.runs
        sealCount = record.sealCount
        wrapCounter = head.wrap.counter
        contentCounter = record.counter
        redoOffset = head.content.record.redoOffset
        origin = head.wrap.origin
    }
}
