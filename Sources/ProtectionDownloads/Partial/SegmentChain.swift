import DataProtection

/// The parts of a download, which can be put together once they can all be opened.
///
/// Each begins at or before the end of the one before it and is of the same version of the resource, so that writing it where it
/// begins is right however often it is done: nothing has to be noted on the way.
///
/// Parts can overlap, because a part begins at the end that the list knows. The file before it may be longer, but while it is locked
/// nothing authenticates its size.
struct SegmentChain {
    let name: PartialName
    let keybag: Keybag

    /// Puts all parts into the first one, flushed. The others are still there: they go when the list says that they may.
    ///
    /// - Parameter records: in their order, the first one beginning at 0.
    /// - Returns: the first one, open.
    /// - Throws: `locked`; `damaged` if a part has less than was flushed, or `system` if it is not there.
    func join(_ records: [SegmentRecord]) throws(DataProtectionError) -> ProtectedFile {
        // All are opened before the first byte is written: an open file stays open through a lock.
        var files: [ProtectedFile] = []
        let records = try present(records)
        guard !records.isEmpty else { throw .system(name.path(0), operation: "open", .noSuchFileOrDirectory) }
        for record in records {
            let path = name.path(record.number)
            let file = try ProtectedFile.open(path, .readWrite, keybag: keybag)
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

    /// Without those that were noted by a process which was killed before it made the file.
    private func present(_ records: [SegmentRecord]) throws(DataProtectionError) -> [SegmentRecord] {
        let numbers = try name.numbers()
        return records.filter { $0.synced > 0 || numbers.contains($0.number) }
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
        case .damaged, .mangled, .notProtected, .keyLost, .otherKey, .notRegularFile, .foreignKeybag: true
        case .system(_, _, let errno): errno == .noSuchFileOrDirectory
        default: false
        }
    }
}
