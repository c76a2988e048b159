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
    let number: Int
    let start: UInt64
    let fileID: [UInt8]
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
    init(
        _ file: ProtectedFile, _ last: SegmentRecord, behind earlier: [SegmentRecord], of resource: ResourceIdentity
    ) throws(DataProtectionError) {
        (self.file, self.earlier, self.resource) = (file, earlier, resource)
        (number, start) = (last.number, last.start)
        (synced, written, aheadOf) = (last.synced, last.synced, last.synced)
        fileID = try file.openedID()
    }

    /// What the list is to know: of the bytes only those that are flushed.
    var record: PartialRecord {
        let part = SegmentRecord(number: number, start: start, synced: synced, fileID: fileID)
        return PartialRecord(resource: resource, parts: earlier + [part], isWhole: isWhole)
    }

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
