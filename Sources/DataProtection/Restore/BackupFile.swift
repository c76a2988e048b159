import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// One file on its way into a backup: its stored bytes, in every lock state. FORMAT.md §2.16, *Copying*.
struct BackupFile {
    let keybag: Keybag
    /// What is known of the backup's class keys without a key.
    let stored: BackupKeybag
    /// For messages.
    let backup: FilePath

    /// Copies a file, unless the copy that is there is the same.
    ///
    /// - Returns: whether it was copied; the name does not last before the directory is flushed.
    /// - Throws: `notProtected`; `foreignKeybag`, `keyLost`, `keyNotInBackup` if the copy could never be opened; `damaged` if the file
    ///   is: then it was copied only if no undamaged copy would have been replaced.
    func copy(_ source: DirectoryEntry, into directory: LowerDirectory) throws(DataProtectionError) -> Bool {
        let file = try source.directory.file(source.name, flags: O_RDONLY, path: source.path)
        let state = try ProtectedFileInfo.state(of: file)
        try requireKey(state, source.path)
        if !state.hasArea, try isThere(source.name, in: directory, file, state) { return false }
        let copy = try UnnamedFile(DirectoryEntry(source.name, in: directory))
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
        let damage = keybag.damage(of: copy.file, named: source.path, needsBothHeads: false)
        if let damage, try hasWholeCopy(source.name, in: directory) { throw damage }
        try copyAttributes(from: file, to: copy.file)
        try copy.file.flushAll()
        try copy.publish(replacing: true, isLast: false)
        if let damage { throw damage }
        return true
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

    private func hasWholeCopy(
        _ name: FilePath.Component, in directory: LowerDirectory
    ) throws(DataProtectionError) -> Bool {
        guard let there = try directory.status(of: name), there.st_mode & S_IFMT == S_IFREG,
            let old = try? directory.file(name, flags: O_RDONLY, path: directory.path.entry(name)),
            try old.isOneOfOurs()
        else { return false }
        return keybag.damage(of: old, named: old.path, needsBothHeads: false) == nil
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
