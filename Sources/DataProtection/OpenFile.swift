import Glibc
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// One open protected file: what it knows of the file, how it gets at its keys, and what it has not committed yet.
///
/// One thread at a time; ``ProtectedFile`` sees to that. Reading is in OpenFile+Read, writing in OpenFile+Write,
/// the order of writes in OpenFile+Commit.
final class OpenFile {
    let file: LowerFile
    let keybag: Keybag
    let isWritable: Bool

    /// What the file contained when this handle last looked; nil: look again.
    var state: FileState?
    /// Since the first write: nobody else writes content, and this is what this handle has not committed.
    var writer: Writer?
    /// The error after which nothing more is written through this handle. FORMAT.md §4 rule 15.
    var failure: Errno?

    private var keys = HeldKeys.none

    /// Byte locks beyond the end of any file. FORMAT.md §3.9.
    static let slotLock: off_t = 1 << 62
    static let writerLock: off_t = 1 << 62 + 1

    /// Between operations: everything for classes B, C and D; for class A only what is worthless without its class key.
    private enum HeldKeys {
        case none
        case kept(FileKeys, wrap: [UInt8], commitment: [UInt8])
        case masked(MaskedKeys, wrap: [UInt8], serial: KeySerial?)
    }

    init(_ file: LowerFile, keybag: Keybag, isWritable: Bool) {
        self.file = file
        self.keybag = keybag
        self.isWritable = isWritable
    }

    /// Keeps the keys of a file that this process has just made, so that class B goes on without its private key.
    func keep(_ fileKey: borrowing FileKey, _ heads: HeadPair) throws(DataProtectionError) {
        state = FileState(heads)
        _ = try hold(fileKey, of: heads.head)
    }

    /// Runs `body` with the state and the keys of this moment. What looks damaged is looked at once more under the slot lock.
    func operate<R>(
        _ operation: Operation, needsHead: Bool = false, _ body: (FileState, FileKeys) throws(Trouble) -> R
    ) throws(DataProtectionError) -> R {
        do throws(Trouble) {
            return try attempt(operation, needsHead, isLocked: false, body)
        } catch {
            guard case .suspect = error else { throw error.reported }
        }
        state = nil
        return try operateLocked(operation, needsHead, body)
    }

    /// The keys, with the state just read under the slot lock.
    func operateLocked(_ operation: Operation) throws(DataProtectionError) -> FileKeys {
        try operateLocked(operation, true) { _, keys throws(Trouble) in keys }
    }

    private func operateLocked<R>(
        _ operation: Operation, _ needsHead: Bool, _ body: (FileState, FileKeys) throws(Trouble) -> R
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
        _ operation: Operation, _ needsHead: Bool, isLocked: Bool,
        _ body: (FileState, FileKeys) throws(Trouble) -> R
    ) throws(Trouble) -> R {
        if let known = state, try !certainly({ () throws(DataProtectionError) in try known.heads.hasChanged(in: file) }) {
            // A record of another process moves no head. A writer knows its own.
            let hasMore = try certainly { () throws(DataProtectionError) in
                writer == nil ? try known.hasMore(in: file) : false
            }
            let keys = try certainly { () throws(DataProtectionError) in
                try fileKeys(known.heads.head, operation, needsHead: needsHead || hasMore || known.record.isInline)
            }
            if hasMore { try rescan(known, keys, isLocked: isLocked) }
            return try body(state!, keys)
        }
        let fresh = FileState(try HeadPair(reading: file, isLocked: isLocked))
        let keys = try certainly { () throws(DataProtectionError) in
            try fileKeys(fresh.heads.head, operation, needsHead: true)
        }
        do throws(DataProtectionError) {
            try withFormat(file.path) { () throws(FormatError) in
                try fresh.heads.head.authenticate(under: keys.head().bytes)
            }
        } catch {
            throw Trouble(error)
        }
        if writer == nil { try rescan(fresh, keys, isLocked: isLocked) } else { try refresh(fresh, keys) }
        return try body(state!, keys)
    }

    /// Follows the area. Afterwards the heads must still be the same: it may have been emptied meanwhile.
    private func rescan(_ start: FileState, _ keys: FileKeys, isLocked: Bool) throws(Trouble) {
        var next = start
        try next.scan(file, headKey: next.hasArea ? keys.head() : nil)
        if next.hasArea, !isLocked {
            let moved = try certainly { () throws(DataProtectionError) in try next.heads.hasChanged(in: file) }
            if moved {
                throw .suspect(.damaged(file.path, .redoRecord, reason: "emptied while it was read", offset: nil))
            }
        }
        state = next
    }

    /// A writer's content is its own; only the wrap record can have been changed by somebody else.
    private func refresh(_ fresh: FileState, _ keys: FileKeys) throws(Trouble) {
        guard let known = state else { return try rescan(fresh, keys, isLocked: true) }
        guard fresh.heads.head.content == known.heads.head.content else {
            throw .suspect(.damaged(file.path, .head, reason: "changed by somebody who is not its writer", offset: nil))
        }
        state!.heads = fresh.heads
    }

    // MARK: keys

    /// The keys for one operation. Class A asks the ring each time.
    func fileKeys(
        _ head: Head, _ operation: Operation, needsHead: Bool
    ) throws(DataProtectionError) -> FileKeys {
        switch keys {
        case .kept(let kept, let wrap, _) where wrap == head.wrapBytes: return kept
        case .kept(let kept, _, let commitment)
        where commitment == head.wrap.commitment && head.wrap.classKey.protectionClass != .complete:
            // The class was changed, the key was not: an open handle goes on.
            keys = .kept(kept, wrap: head.wrapBytes, commitment: commitment)
            return kept
        case .masked(let masked, let wrap, var serial) where wrap == head.wrapBytes:
            let unmasked = try unmask(masked, head, &serial, needsHead)
            keys = .masked(masked, wrap: wrap, serial: serial)
            if let unmasked { return unmasked }
            throw keybag.lockedError(file.path, .complete, operation)
        default:
            keys = .none
            let fileKey = try keybag.fileKey(of: head, path: file.path, operation)
            return try hold(fileKey, of: head)
        }
    }

    private func unmask(
        _ masked: MaskedKeys, _ head: Head, _ serial: inout KeySerial?, _ needsHead: Bool
    ) throws(DataProtectionError) -> FileKeys? {
        guard let payload = try RingKeys.payload(of: keybag.ring.unlocked, serial: &serial),
            let classKey = try Keybag.classKey(head.wrap.classKey, in: payload)
        else { return nil }
        do throws(KeyError) {
            return try masked.unmask(with: classKey, prefix: head.prefix, needsHead: needsHead)
        } catch {
            throw .cryptography(error)
        }
    }

    private func hold(_ fileKey: borrowing FileKey, of head: Head) throws(DataProtectionError) -> FileKeys {
        let id = head.prefix.fileID
        do throws(KeyError) {
            let chunkKey = try fileKey.chunkKey(of: id)
            let headKey = try fileKey.headKey(of: id)
            if head.wrap.classKey.protectionClass == .complete {
                if let masked = try mask(chunkKey, headKey, head.wrap.classKey) {
                    keys = .masked(masked, wrap: head.wrapBytes, serial: nil)
                }
                return FileKeys(prefix: head.prefix, chunkKey: chunkKey, headKey: FileKeys.Kept(headKey))
            }
            let kept = FileKeys(prefix: head.prefix, chunkKey: chunkKey, headKey: FileKeys.Kept(headKey))
            keys = .kept(kept, wrap: head.wrapBytes, commitment: head.wrap.commitment)
            return kept
        } catch {
            throw .cryptography(error)
        }
    }

    /// nil if the class key has gone meanwhile: the next operation says *locked* then.
    private func mask(
        _ chunkKey: borrowing SecretBytes, _ headKey: borrowing SecretBytes, _ name: ClassKeyName
    ) throws(KeyError) -> MaskedKeys? {
        let kept = (FileKeys.Kept(chunkKey.slice(0..<32)), FileKeys.Kept(headKey.slice(0..<32)))
        let made = try? keybag.withClassKey(name) { classKey throws(DataProtectionError) in
            do throws(KeyError) {
                return try MaskedKeys(chunkKey: kept.0.bytes, headKey: kept.1.bytes, under: classKey)
            } catch {
                throw .cryptography(error)
            }
        }
        return made ?? nil
    }
}

/// Runs something whose failure has nothing to do with what the bytes look like.
func certainly<R>(_ body: () throws(DataProtectionError) -> R) throws(Trouble) -> R {
    do throws(DataProtectionError) { return try body() } catch { throw Trouble(error) }
}
