import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// One open protected file: what it knows of the file, how it gets at its keys, and what it has not committed yet.
///
/// One thread at a time; ``ProtectedFile`` sees to that. Reading is in OpenFile+Read, writing in OpenFile+Write,
/// the order of writes in OpenFile+Commit.
package final class OpenFile {
    package let file: LowerFile
    package let keybag: Keybag
    package let isWritable: Bool

    /// What the file contained when this handle last looked; nil: look again.
    package var state: FileState?
    /// Since the first write: nobody else writes content, and this is what this handle has not committed.
    package var writer: Writer?
    /// The error after which nothing more is written through this handle. FORMAT.md §4 rule 15.
    package var failure: Errno?

    /// For ciphertext on its way.
    package let memory = SealedMemory()

    package private(set) var keys: HandleKeys

    /// Byte locks beyond the end of any file. FORMAT.md §3.9.
    package static let slotLock = ByteLocks.slot
    package static let writerLock = ByteLocks.writer

    package init(_ file: LowerFile, keybag: Keybag, isWritable: Bool) {
        self.file = file
        self.keybag = keybag
        self.isWritable = isWritable
        keys = HandleKeys(keybag: keybag, path: file.path)
    }

    /// A file that this process has just made: class B goes on without its private key.
    package init(_ file: LowerFile, keybag: Keybag, keys: HandleKeys) {
        self.file = file
        self.keybag = keybag
        self.keys = keys
        isWritable = true
    }

    /// Wipes the keys: the file is closed.
    package func forgetKeys() { keys = HandleKeys(keybag: keybag, path: file.path) }

    /// Runs `body` with the state and the keys of this moment. What looks damaged is looked at once more under the slot lock.
    package func operate<R>(
        _ operation: AttemptedOperation, needsHead: Bool = false, _ body: (FileState, FileKeys) throws(Trouble) -> R
    ) throws(DataProtectionError) -> R {
        do throws(Trouble) {
            return try attempt(operation, needsHead, isLocked: false, body)
        } catch {
            guard case .suspect = error else { throw error.reported }
        }
        return try operateLocked(operation, needsHead, body)
    }

    /// The keys, with the state just read under the slot lock.
    package func operateLocked(_ operation: AttemptedOperation) throws(DataProtectionError) -> FileKeys {
        try operateLocked(operation, true) { _, keys throws(Trouble) in keys }
    }

    /// Runs `body` with the state as it is read under the slot lock.
    package func operateLocked<R>(
        _ operation: AttemptedOperation, _ needsHead: Bool, _ body: (FileState, FileKeys) throws(Trouble) -> R
    ) throws(DataProtectionError) -> R {
        try file.withByteLock(Self.slotLock, .shared) { () throws(DataProtectionError) in
            do throws(Trouble) {
                return try attempt(operation, needsHead, isLocked: true, body)
            } catch {
                throw error.reported
            }
        }
    }

    private func attempt<R>(
        _ operation: AttemptedOperation, _ needsHead: Bool, isLocked: Bool,
        _ body: (FileState, FileKeys) throws(Trouble) -> R
    ) throws(Trouble) -> R {
        guard let known = state, !isLocked,
            try !certainly({ () throws(DataProtectionError) in try known.heads.hasChanged(in: file) })
        else {
            let keys = try look(operation, isLocked: isLocked)
            return try body(state!, keys)
        }
        if writer != nil {  // nobody else moves what a writer knows
            let keys = try certainly { () throws(DataProtectionError) in
                try self.keys.keys(for: known.heads.head, operation, needsHead: needsHead || known.record.isInline)
            }
            return try body(known, keys)
        }
        // A record of another process moves no head.
        let hasMore = try certainly { () throws(DataProtectionError) in try known.hasMore(in: file) }
        let keys = try certainly { () throws(DataProtectionError) in
            try self.keys.keys(
                for: known.heads.head, operation, needsHead: needsHead || hasMore || known.record.isInline)
        }
        if hasMore { try rescan(known, keys) }
        let result = try body(state!, keys)
        try requireStill(state!)
        return result
    }

    /// Reads heads and area anew and authenticates them.
    private func look(_ operation: AttemptedOperation, isLocked: Bool) throws(Trouble) -> FileKeys {
        let fresh = FileState(try HeadPair(reading: file, isLocked: isLocked))
        let kept = self.keys.keptCommitment
        let keys = try certainly { () throws(DataProtectionError) in
            try self.keys.keys(for: fresh.heads.head, operation, needsHead: true)
        }
        try certainly { () throws(DataProtectionError) in
            try withFormat(file.path) { () throws(FormatError) in
                try fresh.heads.head.authenticate(under: keys.head().bytes)
            }
        }
        // A handle that keeps its file key goes on: it made the file, or the key was judged before.
        if isWritable, kept != fresh.heads.head.wrap.commitment {
            try certainly { () throws(DataProtectionError) in try requireOrigin(fresh) }
        }
        if writer != nil {
            // A writer's content is its own; only the wrap record can have been changed by somebody else.
            guard fresh.heads.head.content == state?.heads.head.content else {
                throw .suspect(.damaged(file.path, .head, reason: "changed by somebody else", offset: nil))
            }
            state!.heads = fresh.heads
        } else {
            try rescan(fresh, keys)
            if !isLocked { try requireStill(state!) }
        }
        return keys
    }

    /// Refuses a file whose key somebody else may know. That key is not kept either, so the next operation asks again.
    private func requireOrigin(_ fresh: FileState) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try keybag.requireOrigin(of: fresh.heads.head, path: file.path)
        } catch {
            forgetKeys()
            throw error
        }
    }

    /// Follows the area.
    private func rescan(_ start: FileState, _ keys: FileKeys) throws(Trouble) {
        var next = start
        try next.scan(file, headKey: next.hasArea ? keys.head() : nil)
        state = next
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
