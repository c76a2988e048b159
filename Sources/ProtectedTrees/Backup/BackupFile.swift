import DurableFiles
import Keybags
import ProtectedFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// One file on its way into a backup: its stored bytes, in every lock state. FORMAT.md §2.16, *Copying*.
package struct BackupFile {
    package let keybag: Keybag
    /// What is known of the backup's class keys without a key.
    package let stored: BackupKeybag
    /// For messages.
    package let backup: FilePath
    /// What was kept while nothing could be verified.
    package let earlier: EarlierCopies

    /// Copies a file, unless the copy that is there is the same. One that cannot be verified now takes the place of another only after that
    /// one was kept.
    ///
    /// - Returns: whether it was copied; the name does not last before the directory is flushed.
    /// - Throws: `notProtected`; `foreignKeybag`, `keyLost`, `keyNotInBackup` if the copy could never be opened; `damaged` if the file
    ///   is: then it was copied only if no undamaged copy would have been replaced.
    package func copy(_ source: DirectoryEntry, into directory: LowerDirectory) throws(DataProtectionError) -> Bool {
        let file = try source.directory.file(source.name, flags: O_RDONLY, path: source.path)
        let state = try ProtectedFileInfo.state(of: file)
        try requireKey(state, source.path)
        let target = DirectoryEntry(source.name, in: directory)
        if !state.hasArea, try isThere(source.name, in: directory, file, state) {
            try settle(target, source.path)
            return false
        }
        let copy = try UnnamedFile(target)
        if try file.tryByteLock(OpenFile.writerLock, .shared) {
            try file.withByteLock(OpenFile.slotLock, .shared) { () throws(DataProtectionError) in
                try ProtectedFile.copyBytes(from: file, to: copy.file)
            }
            try file.unlockByte(OpenFile.writerLock)
        } else {
            try ProtectedFile.copyBetweenCommits(from: file, to: copy.file)
        }
        // A rotation may have been faster.
        try requireKey(ProtectedFileInfo.state(of: copy.file), source.path)
        let wholeness = keybag.wholeness(of: copy.file, named: source.path, needsBothHeads: false)
        let old: LowerFile? = if case .whole = wholeness { nil } else { try undamagedCopy(target) }
        if let damage = wholeness.damage, old != nil { throw damage }
        try copyAttributes(from: file, to: copy.file)
        try copy.file.flushAll()
        if case .unknown = wholeness, let old { try earlier.keep(old, of: target) }
        try copy.publish(replacing: true, isLast: false)
        switch wholeness {
        case .whole:
            // The new name must last first.
            if try earlier.copy(of: target) != nil {
                try directory.flush()
                try earlier.remove(of: target)
            }
        case .damaged(let damage): throw damage
        case .unknown: break
        }
        return true
    }

    /// Judges a copy that was made while nothing could be verified: when it is known to be whole, the earlier one goes.
    ///
    /// - Throws: `damaged`, about the file at `path`, which the copy is the same as.
    private func settle(_ target: DirectoryEntry, _ path: FilePath) throws(DataProtectionError) {
        guard try earlier.copy(of: target) != nil else { return }
        let copy = try target.directory.file(target.name, flags: O_RDONLY, path: target.path)
        switch keybag.wholeness(of: copy, named: path, needsBothHeads: false) {
        case .whole: try earlier.remove(of: target)
        case .damaged(let damage): throw damage
        case .unknown: break
        }
    }

    /// Whether the backup opens what is under that class key.
    private func requireKey(_ state: FileState, _ path: FilePath) throws(DataProtectionError) {
        let name = state.heads.head.wrap.classKey
        guard name.keybag == keybag.uuid else { throw .foreignKeybag(path, name.keybag) }
        guard let entry = try keybag.entry(of: name) else { throw keybag.keyLost(name, path) }
        guard stored.holds(entry) else {
            throw .keyNotInBackup(path, name.protectionClass, generation: name.generation, backup: backup)
        }
    }

    /// Whether the copy of that name has the same length, time of writing and heads: every commit changes a head. Then only
    /// mode and attributes can be others.
    private func isThere(
        _ name: FilePath.Component, in directory: LowerDirectory, _ file: LowerFile, _ state: FileState
    ) throws(DataProtectionError) -> Bool {
        guard let there = try directory.status(of: name), there.st_mode & S_IFMT == S_IFREG else { return false }
        let now = try file.status()
        guard there.st_size == now.st_size, there.st_mtim.isSame(as: now.st_mtim),
            let old = try? directory.file(name, flags: O_RDONLY, path: directory.path.entry(name)),
            try state.heads.isUnchanged(in: old)
        else { return false }
        if !now.st_ctim.isBefore(there.st_ctim) { try copyAttributes(from: file, to: old) }
        return true
    }

    /// The copy that is there, unless it is known to be damaged.
    private func undamagedCopy(_ target: DirectoryEntry) throws(DataProtectionError) -> LowerFile? {
        guard let there = try target.directory.status(of: target.name), there.st_mode & S_IFMT == S_IFREG,
            let old = try? target.directory.file(target.name, flags: O_RDONLY, path: target.path),
            try old.isOneOfOurs()
        else { return nil }
        return keybag.wholeness(of: old, named: old.path, needsBothHeads: false).damage == nil ? old : nil
    }

    private func copyAttributes(from file: LowerFile, to copy: LowerFile) throws(DataProtectionError) {
        try FileAttributes.copy(from: file, to: copy, keepingOwner: false)
        // A restore reads it, and the next backup.
        let mode = try copy.status().st_mode & 0o777
        guard mode & S_IRUSR == 0 else { return }
        _ = try retrying(copy.path, "fchmod") { fchmod(copy.descriptor, mode | S_IRUSR) }
    }
}

extension timespec {
    fileprivate func isSame(as other: timespec) -> Bool { tv_sec == other.tv_sec && tv_nsec == other.tv_nsec }

    fileprivate func isBefore(_ other: timespec) -> Bool { (tv_sec, tv_nsec) < (other.tv_sec, other.tv_nsec) }
}
