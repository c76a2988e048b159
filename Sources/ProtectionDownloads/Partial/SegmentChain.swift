import DataProtection

/// The parts of a download, which can be put together once they can all be opened.
///
/// Each begins at or before the end of the one before it and is of the same version of the resource, so that writing it where it
/// begins is right however often it is done: nothing has to be noted on the way. Each is the file that its record names, and its own key
/// proves that it was made for this part: files change names without a key, and a process of the same user can forge records. Nobody
/// without a class key could have made it.
struct SegmentChain {
    let name: PartialName
    let keybag: Keybag

    /// Puts all parts into the first one, flushed. The others are still there: they go when the list says that they may.
    ///
    /// - Parameter records: in their order, the first one beginning at 0.
    /// - Returns: the first one, open.
    /// - Throws: `locked`; `damaged` if a part has less than was flushed or another file has its name, `wouldWeaken` if the first part has a
    ///   weaker class than another one, `unverifiedOrigin`, or `system` if it is not there.
    func join(_ records: [SegmentRecord]) throws(DataProtectionError) -> ProtectedFile {
        // All are opened before the first byte is written: an open file stays open through a lock.
        var parts: [(file: ProtectedFile, record: SegmentRecord)] = []
        // A process was killed before it made the file of a part without bytes, or before it knew which file that is.
        for record in records where record.synced > 0 {
            let path = try name.path(record.number).stored()
            let file = try ProtectedFile.open(path, .readWrite, keybag: keybag, requireVerifiedOrigin: true)
            guard try file.openedID() == record.fileID else {
                throw .damaged(path, .head, reason: "it is another file", offset: nil)
            }
            guard
                try file.proves(
                    .part(UInt64(record.number), of: name.id.bytes, as: file.openedClass()), by: record.seal ?? [])
            else {
                throw .damaged(path, .head, reason: "it was not made for this download", offset: nil)
            }
            guard UInt64(try file.size()) >= record.synced else {
                throw .damaged(path, .contentRecord, reason: "shorter than it was", offset: nil)
            }
            parts.append((file, record))
        }
        guard let first = parts.first, let last = parts.last else {
            throw .system(name.path(0), operation: "open", .noSuchFileOrDirectory)
        }
        guard first.record.start == 0 else {
            throw .damaged(first.file.path, .contentRecord, reason: "not the first part", offset: nil)
        }
        if parts.count == 1 { return first.file }
        // The classes are those of heads that have just opened.
        let firstClass = try first.file.openedClass()
        for part in parts { try firstClass.requireNotWeaker(than: try part.file.openedClass(), first.file.path) }
        var end = first.record.end
        for (file, record) in parts.dropFirst() {
            guard record.start <= end else {
                throw .damaged(file.path, .contentRecord, reason: "a part before it is missing", offset: nil)
            }
            try copy(file, to: first.file, at: record.start)
            end = record.end
        }
        // An earlier part may have been longer than was noted of it.
        try first.file.truncate(to: Int64(last.record.start) + (try last.file.size()))
        try first.file.sync()
        for part in parts.dropFirst() { try part.file.close() }
        return first.file
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
        case .damaged, .notProtected, .notRegularFile, .because(KeybagFailure.keyLost), .because(FileFailure.mangled),
            .because(FileFailure.otherKey), .because(FileFailure.foreignKeybag), .because(FileFailure.unverifiedOrigin),
            .because(FileFailure.wouldWeaken):
            true
        case .system(_, _, let errno): errno == .noSuchFileOrDirectory
        default: false
        }
    }
}
