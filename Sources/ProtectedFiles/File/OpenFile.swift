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
        try operate(operation) { view, _ throws(Trouble) in view.state }
    }

    /// The plaintext size, pending writes included.
    package func size(_ operation: AttemptedOperation = .read) throws(DataProtectionError) -> UInt64 {
        if let pending = content.view?.pending { return pending.size }
        return try state(operation).record.size
    }

    /// Reads up to `buffer.count` bytes at `offset`; fewer only at the end of the file.
    package func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64
    ) throws(DataProtectionError) -> Int {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...].prefix(Self.segment))
            let count = try operate(.read) { view, keys throws(Trouble) in
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
        do throws(Trouble) {
            return try attempt(operation, needsHead, body)
        } catch {
            guard case .suspect = error else { throw error.reported }
        }
        return try operateLocked(operation, body)
    }

    /// Runs `body` with the content as it is read under the slot lock, and with all keys.
    package func operateLocked<R>(
        _ operation: AttemptedOperation, _ body: (FileView, FileKeys) throws(Trouble) -> R
    ) throws(DataProtectionError) -> R {
        try file.withByteLock(Self.slotLock, .shared) { () throws(DataProtectionError) in
            do throws(Trouble) {
                let (view, keys) = try look(operation, isLocked: true)
                return try body(view, keys)
            } catch {
                throw error.reported
            }
        }
    }

    private func attempt<R>(
        _ operation: AttemptedOperation, _ needsHead: Bool, _ body: (FileView, FileKeys) throws(Trouble) -> R
    ) throws(Trouble) -> R {
        guard var view = content.view,
            try !certainly({ () throws(DataProtectionError) in try view.state.heads.hasChanged(in: file) })
        else {
            let (view, keys) = try look(operation, isLocked: false)
            return try body(view, keys)
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
        let result = try body(view, keys)
        if !view.isWriters { try requireStill(view.state) }
        return result
    }

    /// Reads heads and area anew and authenticates them.
    private func look(
        _ operation: AttemptedOperation, isLocked: Bool
    ) throws(Trouble) -> (view: FileView, keys: FileKeys) {
        let fresh = try HeadPair(reading: file, isLocked: isLocked)
        let keys = try certainly { () throws(DataProtectionError) in
            try access.authenticate(fresh.head, operation)
        }
        let view = try content.take(fresh, keys)
        if !view.isWriters, !isLocked { try requireStill(view.state) }
        return (view, keys)
    }

    /// What was read without a lock counts only if no head has moved meanwhile: the area may have been emptied, and a home
    /// that was read may hold a chunk that is not committed yet.
    private func requireStill(_ seen: FileState) throws(Trouble) {
        let moved = try certainly { () throws(DataProtectionError) in try seen.heads.hasChanged(in: file) }
        if moved { throw .suspect(.damaged(file.path, .head, reason: "changed while it was read", offset: nil)) }
    }
}

/// Runs something whose failure has nothing to do with what the bytes look like.
package func certainly<R>(_ body: () throws(DataProtectionError) -> R) throws(Trouble) -> R {
    do throws(DataProtectionError) { return try body() } catch { throw Trouble(error) }
}
