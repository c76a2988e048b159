import DurableFiles
import Keybags
public import ProtectionFormat
public import ProtectionKeys

/// Whose file it is, as its head says in clear. FORMAT.md §§3.2, 3.3.
public struct FileIdentity: Hashable, Sendable {
    /// 16 bytes that name the file.
    public let fileID: [UInt8]
    /// Plaintext bytes of a whole chunk.
    public let chunkSize: Int
    /// When it may be read.
    public let protectionClass: ProtectionClass
    /// Whose class key wraps its key.
    public let keybag: KeybagUUID
    /// The generation of that class key.
    public let generation: UInt32
    /// Where the file was made, as its last wrapper claims.
    public let origin: OriginMark

    package init(_ prefix: Prefix, _ wrap: WrapRecord) {
        fileID = prefix.fileID.bytes
        chunkSize = prefix.layout.chunkSize
        protectionClass = wrap.classKey.protectionClass
        keybag = wrap.classKey.keybag
        generation = wrap.classKey.generation
        origin = wrap.origin
    }
}

/// What a file contains, as its head or its last redo record says in clear. FORMAT.md §3.4.
public struct FileOutline: Hashable, Sendable {
    /// Plaintext bytes.
    public let size: UInt64
    /// 0 for a file that lies in its head.
    public let chunkCount: UInt64
    /// Whether it lies in its head.
    public let isInline: Bool
    /// Runs of chunks that read as zeros.
    public let holes: [Range<UInt64>]
    /// Seals made under the file's key; 2^31 at most.
    public let sealCount: UInt64

    package init(_ record: ContentRecord) {
        size = record.size
        chunkCount = record.chunkCount
        isInline = record.isInline
        holes = record.holes.runs
        sealCount = record.sealCount
    }
}
