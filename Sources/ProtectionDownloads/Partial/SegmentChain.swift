import DataProtection

/// The parts of a download, which can be put together once they can all be opened.
///
/// Each begins at or before the end of the one before it and is of the same version of the resource, so that writing it where it
/// begins is right however often it is done: nothing has to be noted on the way. Each is the file that its record names, and nobody
/// else could have made it: files change names without a key.
struct SegmentChain {
    let name: PartialName
    let keybag: Keybag

    /// Puts all parts into the first one, flushed. The others are still there: they go when the list says that they may.
    ///
    /// - Parameter records: in their order, the first one beginning at 0.
    /// - Returns: the first one, open.
    /// - Throws: `locked`; `damaged` if a part has less than was flushed or another file has its name, `unverifiedOrigin`, or `system` if
    ///   it is not there.
    func join(_ records: [SegmentRecord]) throws(DataProtectionError) -> ProtectedFile {
        // All are opened before the first byte is written: an open file stays open through a lock.
        var files: [ProtectedFile] = []
        // A process was killed before it made the file of a part without bytes, or before it knew which file that is.
        let records = records.filter { $0.synced > 0 }
        guard !records.isEmpty else { throw .system(name.path(0), operation: "open", .noSuchFileOrDirectory) }
        for record in records {
            let path = name.path(record.number)
            let file = try ProtectedFile.open(path, .readWrite, keybag: keybag, requireVerifiedOrigin: true)
            guard try file.openedID() == record.fileID else {
                throw .damaged(path, .head, reason: "it is another file", offset: nil)
            }
            guard UInt64(try file.size()) >= record.synced else {
                throw .damaged(path, .contentRecord, reason: "shorter than it was", offset: nil)
            }
            files.append(file)
        }
        guard records[0].start == 0 else {
            throw .damaged(name.path(records[0].number), .contentRecord, reason: "not the first part", offset: nil)
        }
        let first = files[0]
        if records.count == 1 { return first }
        for (index, (file, record)) in zip(files, records).enumerated().dropFirst() {
            guard record.start <= records[index - 1].end else {
                throw .damaged(file.path, .contentRecord, reason: "a part before it is missing", offset: nil)
            }
            try copy(file, to: first, at: record.start)
        }
        // An earlier part may have been longer than was noted of it.
        try first.truncate(to: Int64(records.last!.start) + (try files.last!.size()))
        try first.sync()
        for file in files.dropFirst() { try file.close() }
        return first
    }

    private func copy(
        _ file: ProtectedFile, to first: ProtectedFile, at start: UInt64
    ) throws(DataProtectionError) {
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: WriteBuffer.capacity, alignment: 64)
        defer { piece.deallocate() }
        var offset: Int64 = 0
        while true {
            let count = try file.read(into: piece, at: offset)
            if count == 0 { return }
            try first.write(UnsafeRawBufferPointer(rebasing: piece[..<count]), at: Int64(start) + offset)
            offset += Int64(count)
        }
    }
}

extension DataProtectionError {
    /// Whether what was downloaded before is of no use: another try begins at the first byte.
    var isOfLostPartial: Bool {
        switch self {
        case .damaged, .mangled, .notProtected, .keyLost, .otherKey, .notRegularFile, .foreignKeybag, .unverifiedOrigin:
            true
        case .system(_, _, let errno): errno == .noSuchFileOrDirectory
        default: false
        }
    }
}
