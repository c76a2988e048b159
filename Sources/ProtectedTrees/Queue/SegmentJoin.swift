import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Appends a segment to its log, each byte exactly once, wherever a process dies. FORMAT.md §2.8.
///
/// Before bytes of the segment are written, the note says where they will be. They are one commit of the log: after a crash
/// either all of them are there or none. No other process that follows the queue has written to the log meanwhile: the next writer finishes the join
/// first.
///
/// Notes and files may be forged while the keybag is locked. A join therefore takes nothing but what proves that it was made as a segment of
/// this log, never weakens a class, never writes to a file that others may have the key of, and removes a segment only after it has found
/// all its bytes in the log.
struct SegmentJoin {
    /// Bytes of one commit: far from the 2^16 seals after which a handle commits by itself.
    private static let piece: UInt64 = 64 << 20

    let keybag: Keybag
    let log: FilePath
    /// What the note has as a ``JoinSeal``.
    let seal: [UInt8]
    /// A handle that is the log's writer, if this process has one.
    let own: ProtectedFile?

    /// Appends the segment that `reference` leads to.
    ///
    /// - Throws: `notASegment`: the file stays what it is; `busy` while somebody writes to log or segment; `wouldWeaken` if the log's class is
    ///   weaker than the segment's; and what opening either file throws, as `unverifiedOrigin` for a log whose key somebody else may know.
    func perform(
        _ reference: FileReference, _ note: inout QueueNote
    ) throws(DataProtectionError) -> QueuedWorkResult.Outcome {
        guard let segment = try reference.findInPlace() else {
            // It is only removed when all of it has been appended, to a log that is there then.
            if let begun = note.begun, try begun.log.find(asPartOf: log) != nil { return .done }
            return try reference.gone()
        }
        // That very file, whatever has its name by now.
        let source = ProtectedFile(OpenFile(segment, keybag: keybag, isWritable: false))
        defer { withExtendedLifetime(source) {} }
        let hasBecome = try segment.hasBecome(log)
        // If it has become the log, it may have a writer.
        if !hasBecome {
            guard try segment.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(segment.path) }
        }
        guard try source.isSegment(of: log, by: seal) else {
            throw .because(TreeFailure.notASegment(segment.path, of: log))
        }
        if hasBecome { return try remove(segment) }
        let target: ProtectedFile
        if let begun = try begunLog(note, source) {
            target = begun
        } else {
            // A writer of a log that was rotated in this moment would write its next line before a new one's first.
            if own == nil, !OwnDirectory.exists(log), try segment.become(log) { return try remove(segment) }
            target = try presentLog()
        }
        try refuseWeaker(target, than: source)
        do throws(DataProtectionError) {
            try append(source, to: target, &note)
        } catch {
            target.forgetPending()
            throw error
        }
        // What failed on the way out was committed before.
        if target !== own { try? target.close() }
        try ReplacedFile(segment).saveAppendedBytes(keybag)
        return try remove(segment)
    }

    /// The classes are those of the heads that just opened, so they are authenticated.
    private func refuseWeaker(
        _ target: ProtectedFile, than source: ProtectedFile
    ) throws(DataProtectionError) {
        let (to, from) = (try target.openedClass(), try source.openedClass())
        guard to >= from else { throw .because(FileFailure.wouldWeaken(source.path, from: from, to: to)) }
    }

    /// The log that an interrupted join has begun with, wherever it was rotated to, as its only writer; nil if its own key does not prove that.
    private func begunLog(_ note: QueueNote, _ source: ProtectedFile) throws(DataProtectionError) -> ProtectedFile? {
        guard let begun = note.begun, let found = try begun.log.find(asPartOf: log) else { return nil }
        if let own, try own.lower.isNamed(found.path) { return own }
        do throws(DataProtectionError) {
            let file = try ProtectedFile.open(found.path, .readWrite, keybag: keybag)
            // Rotated in this moment: it is another log.
            guard try file.lower.fileID() == begun.log.fileID else { throw .busy(found.path) }
            if try isProved(begun, of: source, in: file) {
                try file.beginWriting()
                return file
            }
            try file.close()
        } catch {
            // Somebody may have put it there, and named it in the note.
            guard error.provesNothing else { throw error }
        }
        return nil
    }

    /// What has the name of the log now, as its only writer.
    private func presentLog() throws(DataProtectionError) -> ProtectedFile {
        if let own {
            guard try own.lower.isNamed(log) else { throw .busy(log) }
            return own
        }
        // Says *busy* where somebody sits on the log's lock; what follows would wait for ever.
        _ = try FileReference.openRegular(log)?.fileID()
        let file = try ProtectedFile.open(log, .readWrite, keybag: keybag)
        try file.beginWriting()
        return file
    }

    private func append(
        _ source: ProtectedFile, to target: ProtectedFile, _ note: inout QueueNote
    ) throws(DataProtectionError) {
        let size = UInt64(try source.size())
        var done = try appended(of: source, in: target, note)
        guard let id = try target.lower.fileID() else { throw .notProtected(target.path) }
        let reference = try FileReference(target.lower, id, named: target.path)
        while done < size {
            let offset = UInt64(try target.size())
            let count = min(size - done, Self.piece)
            let claim = try source.begun(from: done, count: count, at: offset)
            let seal: [UInt8]
            // The note does not grow with each try that fails.
            if let last = note.begun, last.from == done, try target.proves(claim, by: last.seal) {
                seal = last.seal
            } else {
                seal = try target.seal(claim)
            }
            try note.add(.begun(reference, offset: offset, from: done, count: count, seal: seal))
            try source.copy(from: done, count: count, to: target, at: offset)
            try target.sync()
            done += count
        }
    }

    /// How many bytes of the segment are in the log already.
    ///
    /// Each piece that was announced is compared, from the first byte on: what the note says of earlier pieces proves nothing. Nothing is
    /// compared that the log's own key does not prove to have been announced: what comes of it can be seen without a key.
    private func appended(
        of source: ProtectedFile, in target: ProtectedFile, _ note: QueueNote
    ) throws(DataProtectionError) -> UInt64 {
        guard let id = try target.lower.fileID() else { return 0 }
        var done: UInt64 = 0
        // A note can have a hundred thousand forged records, or copies of a genuine one, and the segment would be read for each.
        var judged: Set<QueueRecord> = []
        for record in note.records {
            guard let begun = Begun(record), begun.log.fileID == id, begun.from == done,
                try isPossible(begun, of: source, in: target), judged.insert(record).inserted
            else { continue }
            guard try isProved(begun, of: source, in: target) else { break }
            if try source.hasSameBytes(from: done, count: begun.count, as: target, at: begun.offset) {
                done += begun.count
            }
        }
        return done
    }

    /// Whether there is such a place in the log, and are such bytes in the segment. Each may have been restored from an older copy.
    private func isPossible(
        _ begun: Begun, of source: ProtectedFile, in target: ProtectedFile
    ) throws(DataProtectionError) -> Bool {
        let (sourceSize, size) = (UInt64(try source.size()), UInt64(try target.size()))
        return !begun.seal.isEmpty && begun.offset <= size && begun.count <= Self.piece && begun.from <= sourceSize
            && begun.count <= sourceSize - begun.from
    }

    /// Whether somebody with the log's key has announced these bytes of this segment for that place.
    private func isProved(
        _ begun: Begun, of source: ProtectedFile, in target: ProtectedFile
    ) throws(DataProtectionError) -> Bool {
        guard try isPossible(begun, of: source, in: target) else { return false }
        let claim = try source.begun(from: begun.from, count: begun.count, at: begun.offset)
        return try target.proves(claim, by: begun.seal)
    }

    private func remove(_ segment: LowerFile) throws(DataProtectionError) -> QueuedWorkResult.Outcome {
        // Everything happens in one open directory: another user may own a directory above and change where the path leads.
        let entry = try DirectoryEntry(segment.path)
        // What somebody has put there meanwhile is not the segment.
        if try entry.leads(to: segment) { try entry.directory.remove(entry.name) }
        try entry.directory.flush()
        return .done
    }
}

extension DataProtectionError {
    /// Whether a file is none that a note could rightly name as a log of this keybag.
    fileprivate var provesNothing: Bool {
        switch self {
        case .damaged, .unsupported, .notProtected, .notRegularFile, .because(KeybagFailure.keyLost),
            .because(FileFailure.mangled), .because(FileFailure.otherKey), .because(FileFailure.foreignKeybag),
            .because(FileFailure.unverifiedOrigin):
            true
        default: false
        }
    }
}

extension LowerFile {
    /// Gives a segment the name of its log, if nothing has it.
    ///
    /// - Returns: false if something has.
    /// - Throws: `busy` if the segment is not in the directory of its log.
    fileprivate func become(_ log: FilePath) throws(DataProtectionError) -> Bool {
        let entry = try DirectoryEntry(log)
        guard let own = path.lastComponent, try DirectoryEntry(own, in: entry.directory).leads(to: self) else {
            throw .busy(path)
        }
        do throws(DataProtectionError) { try entry.directory.link(self, as: entry.name) } catch {
            guard error.errno == .fileExists else { throw error }
            return false
        }
        try entry.directory.flush()
        return true
    }

    /// Whether that has happened and only the segment's own name is left to be removed. The log may have been rotated since.
    fileprivate func hasBecome(_ log: FilePath) throws(DataProtectionError) -> Bool {
        guard try status().st_nlink > 1 else { return false }
        for path in try RotatedLog(log).paths() where try isNamed(path) { return true }
        return false
    }
}

extension FileReference {
    /// The file, if it is `log` or one of the older parts of it; nil if it is not there, or is anything else.
    fileprivate func find(asPartOf log: FilePath) throws(DataProtectionError) -> LowerFile? {
        guard path.directory == log.directory, let file = try find() else { return nil }
        return try RotatedLog(log).paths().contains(file.path) ? file : nil
    }
}

extension ProtectedFile {
    /// That these bytes are about to be written to a log.
    ///
    /// - Parameter offset: in the log.
    fileprivate func begun(
        from start: UInt64, count: UInt64, at offset: UInt64
    ) throws(DataProtectionError) -> FileClaim {
        var digest = try withKeys { () throws(KeyError) in try RunningDigest(.sha256) }
        try forEachSegment(from: start, count: count) { bytes, _ throws(DataProtectionError) in
            do throws(KeyError) { try digest.update(bytes) } catch { throw .cryptography(error) }
            return true
        }
        let value: [UInt8]
        do throws(KeyError) { value = try digest.valueSoFar() } catch { throw .cryptography(error) }
        return .begun(segment: try openedID(), offset: offset, from: start, count: count, digest: value)
    }

    fileprivate func copy(
        from start: UInt64, count: UInt64, to target: ProtectedFile, at offset: UInt64
    ) throws(DataProtectionError) {
        try forEachSegment(from: start, count: count) { bytes, done throws(DataProtectionError) in
            try target.write(bytes, at: Int64(offset + done))
            return true
        }
    }

    fileprivate func hasSameBytes(
        from start: UInt64, count: UInt64, as other: ProtectedFile, at offset: UInt64
    ) throws(DataProtectionError) -> Bool {
        let buffer = WipedBuffer(piecesOf: count)
        var isSame = true
        try forEachSegment(from: start, count: count) { bytes, done throws(DataProtectionError) in
            let read = try other.read(into: buffer.prefix(bytes.count), at: Int64(offset + done))
            isSame = read == bytes.count && memcmp(bytes.baseAddress!, buffer.bytes.baseAddress!, read) == 0
            return isSame
        }
        return isSame
    }

    /// Lends the plaintext piece by piece, with where it begins behind `start`, until `body` returns false.
    private func forEachSegment(
        from start: UInt64, count: UInt64,
        _ body: (UnsafeRawBufferPointer, UInt64) throws(DataProtectionError) -> Bool
    ) throws(DataProtectionError) {
        let buffer = WipedBuffer(piecesOf: count)
        var done: UInt64 = 0
        while done < count {
            let wanted = Int(min(count - done, UInt64(buffer.count)))
            let read = try self.read(into: buffer.prefix(wanted), at: Int64(start + done))
            guard read > 0 else { throw .busy(path) }  // it was cut meanwhile
            guard try body(UnsafeRawBufferPointer(buffer.prefix(read)), done) else { return }
            done += UInt64(read)
        }
    }
}
