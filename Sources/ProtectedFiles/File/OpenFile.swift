import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// One open protected file: its content, and how a handle gets at it.
///
/// One thread at a time; ``ProtectedFile`` sees to that. Every operation looks here first whether the heads are still those that are
/// known, and gets the keys of this moment. Writing is in OpenFile+Write; the order of writes in Writer+Commit.
package final class OpenFile {
    package let content: FileContent
    package private(set) var access: FileAccess

    package var file: LowerFile { content.file }
    package var keybag: Keybag { access.keybag }

    /// Byte locks beyond the end of any file. FORMAT.md §3.9.
    package static let slotLock = ByteLocks.slot
    package static let writerLock = ByteLocks.writer

    /// How much is done under one look at the ring, in bytes.
    package static let segment = 1 << 20

    package init(_ file: LowerFile, keybag: Keybag, isWritable: Bool) {
        content = FileContent(file)
        access = FileAccess(HandleKeys(keybag: keybag, path: file.path), isWritable: isWritable)
    }

    /// A file that this process has just made: class B goes on without its private key.
    package init(_ file: LowerFile, keys: HandleKeys) {
        content = FileContent(file)
        access = FileAccess(keys, isWritable: true)
    }

    /// Wipes the keys: the file is closed.
    package func forgetKeys() { access.forgetKeys() }

    // MARK: reading

    /// The committed content, when its key has opened it.
    package func state(_ operation: AttemptedOperation) throws(DataProtectionError) -> FileState {
        try twice { isLocked throws(Trouble) in
            let view = try look(operation, needsHead: false, isLocked: isLocked).view
            if !isLocked, view.state.hasArea { try requireStill(view) }
            return view.state
        }
    }

    /// The committed content as an earlier operation of this handle has authenticated it, if that is still in force; else as
    /// ``state(_:)``. The first needs no key in any lock state, so this is for what tells nothing of the plaintext.
    package func knownState(_ operation: AttemptedOperation) throws(DataProtectionError) -> FileState {
        file.forgetOldPages()
        // The heads last: while they are what they were, this is the area that has no more records.
        if let view = content.view, try (view.isWriters ? true : !view.state.hasMore(in: file)),
            try !view.state.heads.hasChanged(in: file)
        {
            return view.state
        }
        return try state(operation)
    }

    /// As ``state(_:)``, read anew, and who could have made the file.
    package func judgedState(
        _ operation: AttemptedOperation
    ) throws(DataProtectionError) -> (state: FileState, origin: OriginMark.Verdict) {
        try twice { isLocked throws(Trouble) in
            let fresh = try HeadPair(reading: file, isLocked: isLocked)
            let (keys, origin) = try certainly { () throws(DataProtectionError) in
                try access.judge(fresh.head, operation)
            }
            let view = try content.take(fresh, keys)
            if !isLocked, view.state.hasArea { try requireStill(view) }
            return (view.state, origin)
        }
    }

    /// The plaintext size, pending writes included.
    package func size(_ operation: AttemptedOperation = .read) throws(DataProtectionError) -> UInt64 {
        if let pending = content.view?.pending { return pending.size }
        return try state(operation).record.size
    }

    /// Reads up to `buffer.count` bytes at `offset`; fewer only at the end of the file.
    ///
    /// - Parameter operation: what the first MiB is read for.
    package func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64, for operation: AttemptedOperation = .read
    ) throws(DataProtectionError) -> Int {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...].prefix(Self.segment))
            let count = try operate(done == 0 ? operation : .read) { view, keys throws(Trouble) in
                try view.read(into: rest, at: offset + UInt64(done), keys)
            }
            done += count
            if count < rest.count { break }
        }
        return done
    }

    // MARK: one operation

    /// Runs `body` with the content and the keys of this moment. What looks damaged is looked at once more under the slot lock.
    package func operate<R>(
        _ operation: AttemptedOperation, needsHead: Bool = false, _ body: (FileView, FileKeys) throws(Trouble) -> R
    ) throws(DataProtectionError) -> R {
        try twice { isLocked throws(Trouble) in
            let (view, keys) = try look(operation, needsHead: needsHead, isLocked: isLocked)
            let result = try body(view, keys)
            if !isLocked, !view.state.record.isInline { try requireStill(view) }
            return result
        }
    }

    /// Runs `body` with the content as it is read under the slot lock, and with all keys.
    package func operateLocked<R>(
        _ operation: AttemptedOperation, _ body: (FileView, FileKeys) throws(Trouble) -> R
    ) throws(DataProtectionError) -> R {
        try file.withByteLock(Self.slotLock, .shared) { () throws(DataProtectionError) in
            do throws(Trouble) {
                let (view, keys) = try look(operation, needsHead: true, isLocked: true)
                return try body(view, keys)
            } catch {
                throw error.reported
            }
        }
    }

    private func twice<R>(_ attempt: (_ isLocked: Bool) throws(Trouble) -> R) throws(DataProtectionError) -> R {
        do throws(Trouble) { return try attempt(false) } catch {
            guard case .suspect = error else { throw error.reported }
        }
        return try file.withByteLock(Self.slotLock, .shared) { () throws(DataProtectionError) in
            do throws(Trouble) { return try attempt(true) } catch { throw error.reported }
        }
    }

    /// The content as it is now, and its keys. Heads that are known and have not changed are not judged again.
    ///
    /// - Parameter isLocked: whether the slot lock is held; then everything is read anew.
    private func look(
        _ operation: AttemptedOperation, needsHead: Bool, isLocked: Bool
    ) throws(Trouble) -> (view: FileView, keys: FileKeys) {
        guard !isLocked, var view = content.view,
            try !certainly({ () throws(DataProtectionError) in try view.state.heads.hasChanged(in: file) })
        else {
            let fresh = try HeadPair(reading: file, isLocked: isLocked)
            let keys = try certainly { () throws(DataProtectionError) in
                try access.authenticate(fresh.head, operation)
            }
            return (try content.take(fresh, keys), keys)
        }
        // Nobody else moves what a writer knows; a record of another process moves no head.
        let hasMore = try certainly { () throws(DataProtectionError) in
            try view.isWriters ? false : view.state.hasMore(in: file)
        }
        let keys = try certainly { () throws(DataProtectionError) in
            try access.keys(
                for: view.state.heads.head, operation, needsHead: needsHead || hasMore || view.state.record.isInline)
        }
        if hasMore { view = try content.follow(view.state, keys) }
        return (view, keys)
    }

    /// Records and chunks that were read without a lock count only if no head has moved meanwhile: the area may have been emptied, and
    /// a home that was read may hold a chunk that is not committed yet.
    ///
    /// The heads themselves, an inline file included, need no second look. They were read in one piece, and each has a good check: the
    /// newer one was in force at that moment, or became so while it was read. Nobody moves content under a writer.
    private func requireStill(_ seen: FileView) throws(Trouble) {
        if seen.isWriters { return }
        let moved = try certainly { () throws(DataProtectionError) in try seen.state.heads.hasChanged(in: file) }
        if moved { throw .suspect(.damaged(file.path, .head, reason: "changed while it was read", offset: nil)) }
    }
}

/// Runs something whose failure has nothing to do with what the bytes look like.
package func certainly<R>(_ body: () throws(DataProtectionError) -> R) throws(Trouble) -> R {
    do throws(DataProtectionError) { return try body() } catch { throw Trouble(error) }
}
