import DataProtection

/// The last part of a download, open to be written to.
final class OpenPart {
    let file: ProtectedFile
    /// What the bytes are of.
    var resource: ResourceIdentity
    /// Whether every byte is there.
    var isWhole = false
    /// Sums of everything, as long as every byte from the first on has come by.
    var checks: RunningChecks?

    /// The parts before this one, of which none is open.
    private let earlier: [SegmentRecord]
    /// As the list says it, but for what is flushed.
    private let last: SegmentRecord
    /// How many bytes of it are flushed, and how many are written.
    private var synced: UInt64
    private(set) var written: UInt64

    private let ahead = FlushAhead()
    /// How much was written when bytes were last brought to the disk beside what comes.
    private var aheadOf: UInt64
    /// So many new bytes are.
    private static let aheadBytes: UInt64 = 8 << 20

    /// - Parameters:
    ///   - file: open to be written to.
    ///   - last: what the list says of it; `synced` bytes are there.
    ///   - id: of the download.
    init(
        _ file: ProtectedFile, _ last: SegmentRecord, behind earlier: [SegmentRecord], of resource: ResourceIdentity,
        _ id: DownloadID
    ) throws(DataProtectionError) {
        (self.file, self.earlier, self.resource) = (file, earlier, resource)
        (synced, written, aheadOf) = (last.synced, last.synced, last.synced)
        self.last = try SegmentRecord(number: last.number, start: last.start, synced: last.synced, in: file, of: id)
    }

    /// What the list is to know: of the bytes only those that are flushed.
    var record: PartialRecord {
        var part = last
        part.synced = synced
        return PartialRecord(resource: resource, parts: earlier + [part], isWhole: isWhole)
    }

    var number: Int { last.number }
    var fileID: [UInt8]? { last.fileID }
    private var start: UInt64 { last.start }

    /// The offset in the download behind the last byte that is written.
    var end: UInt64 { start + written }

    /// Whether everything is in this file.
    var isOnly: Bool { earlier.isEmpty && start == 0 }

    /// How many bytes are written and not flushed.
    var unsynced: UInt64 { written - synced }

    /// Whether the disk is busy enough with what was written.
    var isFlushing: Bool { ahead.isRunning }

    /// Writes the next bytes.
    func write(_ bytes: UnsafeRawBufferPointer) throws(DataProtectionError) {
        try file.write(bytes, at: Int64(written))
        written += UInt64(bytes.count)
    }

    /// Begins to bring what was written to the disk, where that is much.
    func writeBehind() {
        if written - aheadOf >= Self.aheadBytes, ahead.begin(file) { aheadOf = written }
    }

    /// Makes everything that is written last.
    func flush() throws(DataProtectionError) {
        try ahead.finish()
        try file.sync()
        synced = written
    }
}
