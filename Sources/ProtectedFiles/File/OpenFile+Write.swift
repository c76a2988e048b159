import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys

/// Writing: sealed at once, committed by ``sync()``. Each MiB of a write asks for the keys.
extension OpenFile {
    /// Writes all of `buffer` at `offset`. Sealed when this returns.
    package func write(_ buffer: UnsafeRawBufferPointer, at offset: UInt64) throws(DataProtectionError) {
        try write(buffer, at: offset, nil)
    }

    /// - Parameter keys: for the first MiB; nil: not asked for yet.
    private func write(
        _ buffer: UnsafeRawBufferPointer, at offset: UInt64, _ keys: consuming FileKeys?
    ) throws(DataProtectionError) {
        var keys = keys
        guard offset <= ChunkLayout.maximumSize, UInt64(buffer.count) <= ChunkLayout.maximumSize - offset else {
            throw .because(FileFailure.outOfRange(file.path))
        }
        try requirePlace(upTo: offset + UInt64(buffer.count))
        var done = 0
        while done < buffer.count {
            let part = UnsafeRawBufferPointer(rebasing: buffer[done...].prefix(Self.segment))
            try change(.write, continuing: done > 0, keys.take()) { change throws(DataProtectionError) in
                try change.write(part, at: offset + UInt64(done))
            }
            done += part.count
        }
    }

    /// Before anything is sealed: a commit that the file system has no place for would fail, and all that was written since the last one with it.
    ///
    /// - Throws: EFBIG, as write(2) does.
    private func requirePlace(upTo end: UInt64) throws(DataProtectionError) {
        // Every file system has place for so much.
        if end < 1 << 31 { return }
        let count = end / UInt64(ChunkLayout.small.chunkSize) + 1
        let place = ChunkLayout.small.home(count + Change.gap) + UInt64(Writer.overwriteLimit) * 2
        // lseek(2) knows the limit. Nobody uses the position.
        guard lseek(file.descriptor, off_t(place), SEEK_SET) >= 0 else {
            throw .system(file.path, operation: "pwrite", .fileTooLarge)
        }
    }

    /// Writes all of `buffer` behind the last byte and returns where that was.
    ///
    /// The end is looked up by the one writer that there is, so that two processes that append lose nothing of each other.
    package func append(_ buffer: UnsafeRawBufferPointer) throws(DataProtectionError) -> UInt64 {
        guard access.isWritable else { throw .because(FileFailure.notOpen(file.path, for: .write)) }
        let keys = try becomeWriter(.write)
        // Nobody else moves the end of what a writer knows.
        guard let end = content.view?.size, !buffer.isEmpty else { return try size() }
        try write(buffer, at: end, consume keys)
        return end
    }

    /// Makes the file `size` bytes long: cut, or continued with zeros.
    package func truncate(to size: UInt64) throws(DataProtectionError) {
        guard size <= ChunkLayout.maximumSize else { throw .because(FileFailure.outOfRange(file.path)) }
        try change(.truncate) { change throws(DataProtectionError) in try change.truncate(to: size) }
    }

    /// Makes `buffer` the contents. The cut and the first MiB are one operation.
    ///
    /// After an error nothing is pending, so that no lock commits a part of it.
    ///
    /// - Parameter limit: of the size before, in bytes: that of a file that nobody else can write any more.
    /// - Returns: false if it was longer; nothing is changed then.
    package func replaceContents(
        by buffer: UnsafeRawBufferPointer, ofAtMost limit: UInt64
    ) throws(DataProtectionError) -> Bool {
        guard access.isWritable else { throw .because(FileFailure.notOpen(file.path, for: .truncate)) }
        do throws(DataProtectionError) {
            let begun = try becomeWriter(.truncate)
            guard content.view?.size ?? 0 <= limit else { return false }
            let keys = try change(.truncate, begun) { change throws(DataProtectionError) in
                try change.truncate(to: 0)
            }
            try write(buffer, at: 0, consume keys)
            return true
        } catch {
            content.discard()
            throw error
        }
    }

    /// Commits what is pending. When this returns it survives a crash and a power cut.
    package func sync() throws(DataProtectionError) { try content.sync() }

    /// Commits what is pending, and closes.
    package func close() throws(DataProtectionError) { try content.close() }

    /// Forgets what was not committed.
    package func discard() { content.discard() }

    /// Becomes the file's writer, if it is not that already.
    ///
    /// - Throws: `busy`, `locked`, `unverifiedOrigin`, `handleFailed`.
    package func beginWriting(_ operation: AttemptedOperation) throws(DataProtectionError) {
        _ = try becomeWriter(operation)
    }

    /// Becomes the file's writer, and commits what a dead one has logged.
    ///
    /// - Returns: false if the file is in another state.
    /// - Throws: as ``beginWriting(_:)``.
    package func commit(_ logged: LoggedWrites) throws(DataProtectionError) -> Bool {
        let isResumed = try becomeWriter(.write, resuming: logged).isResumed
        try content.sync()
        return isResumed
    }

    /// - Returns: all keys, as for ``operate(_:needsHead:_:)``; nil if this was the writer already.
    private func becomeWriter(_ operation: AttemptedOperation) throws(DataProtectionError) -> FileKeys? {
        try content.requireNoFailure()
        return content.isWriting ? nil : try becomeWriter(operation, resuming: nil).keys
    }

    private func becomeWriter(
        _ operation: AttemptedOperation, resuming logged: LoggedWrites?
    ) throws(DataProtectionError) -> (keys: FileKeys, isResumed: Bool) {
        guard try file.tryByteLock(Self.writerLock, .exclusive) else { throw .busy(file.path) }
        do throws(DataProtectionError) {
            let seen = try operateLocked(operation) { view, keys throws(Trouble) in (view.state, keys) }
            return (seen.1, try content.beginWriting(seen.0, seen.1, resuming: logged, warn: keybag.warn))
        } catch {
            try file.unlockByte(Self.writerLock)
            throw error
        }
    }

    /// - Parameters:
    ///   - continuing: whether a part of the same write is pending already.
    ///   - keys: of this operation, if it has them.
    /// - Returns: the keys of this operation.
    @discardableResult
    private func change(
        _ operation: AttemptedOperation, continuing: Bool = false, _ keys: FileKeys? = nil,
        _ body: (inout Change) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) -> FileKeys {
        guard access.isWritable else { throw .because(FileFailure.notOpen(file.path, for: operation)) }
        let begun = try becomeWriter(operation)
        try checkSeals()
        let used: FileKeys
        if let keys = begun ?? keys { used = keys } else { used = try keysForChange(operation, continuing) }
        try content.change(used, body)
        return used
    }

    private func keysForChange(
        _ operation: AttemptedOperation, _ continuing: Bool
    ) throws(DataProtectionError) -> FileKeys {
        do throws(DataProtectionError) {
            return try operate(operation, needsHead: true) { _, keys throws(Trouble) in keys }
        } catch {
            switch error {
            // Nothing was changed, but the file is damaged.
            case .damaged, .because(FileFailure.otherKey), .cryptography: content.fail(error)
            // Of a longer write a part may be committed if the key has gone, but not if the disk has failed.
            case .system where continuing:
                content.discard()
                content.fail(error)
            default: break
            }
            throw error
        }
    }

    private func checkSeals() throws(DataProtectionError) {
        let count = content.sealCount
        if count >= 1 << 31 { throw .because(FileFailure.needsRekey(file.path)) }
        if count >= 1 << 30 { keybag.warn(.manySeals(file.path, count)) }
    }
}
