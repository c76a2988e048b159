import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// One file on its way into a backup: its stored bytes, in every lock state. FORMAT.md §2.16, *Copying*.
///
/// While locked nothing in a `complete` or `unless-open` file can be authenticated: size, holes and wrap are sealed under the file
/// key, and anyone can compute the check of a head. Refusing such files would leave a day's work out of the nightly backup. So they
/// are copied, and the copy that they replace is kept in ``EarlierCopies``.
package struct BackupFile {
    package let keybag: Keybag
    /// What is known of the backup's class keys without a key.
    package let stored: BackupKeybag
    /// For messages.
    package let backup: FilePath
    /// What was kept while nothing could be verified.
    package let earlier: EarlierCopies

    /// Copies a file, unless the copy that is there is the same. One that cannot be verified now takes the place of another only after that
    /// one was kept. What another program has appended to a copy is kept, too.
    ///
    /// - Returns: whether it was copied; the name does not last before the directory is flushed.
    /// - Throws: `notProtected`; `foreignKeybag`, `keyLost`, `keyNotInBackup` if the copy could never be opened; `damaged` if the file
    ///   is: then it was copied only if no undamaged copy would have been replaced; `noRoomForEarlierCopy`; `system`, also if the copy that is there
    ///   cannot be read.
    package func copy(_ source: DirectoryEntry, into directory: LowerDirectory) throws(DataProtectionError) -> Bool {
        let file = try source.directory.file(source.name, flags: O_RDONLY, path: source.path)
        let state = try ProtectedFileInfo.state(of: file)
        try requireKey(state, source.path)
        let target = DirectoryEntry(source.name, in: directory)
        if !state.hasArea, let same = try copyThatIsThere(source.name, in: directory, file, state) {
            try settle(target, same, source.path)
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
        let wholeness = Wholeness(of: copy.file, named: source.path, needsBothHeads: false, keybag)
        let old = try oldCopy(target)
        let kept: LowerFile?
        switch wholeness {
        // A genuine file of a weaker class can have been put in its place while locked.
        case .whole: kept = old.flatMap { !isOpen($0) || isLater($0, than: copy.file) ? $0 : nil }
        case .damaged(let damage):
            if let old, isUndamaged(old) { throw damage }
            kept = nil
        case .unknown: kept = old.flatMap { isUndamaged($0) ? $0 : nil }
        }
        // Before the mode, which may allow no more attributes.
        if case .whole = wholeness {} else { earlier.markUnverified(copy.file) }
        try copyAttributes(from: file, to: copy.file)
        try copy.file.flushAll()
        if kept != nil, case .whole = wholeness { try releaseEarlier(of: target, copy.file) }
        var isKept = false
        if let kept {
            let other = try earlier.keep(kept, of: target)
            isKept = other == nil
            if !isKept { isKept = try takesPlace(kept, of: target) }
            if let other, !isKept, mayBeVerified(kept) {
                throw .because(TreeFailure.noRoomForEarlierCopy(source.path, target.path, earlier: other.path))
            }
        }
        if let old, !isKept { try earlier.keepAppendedBytes(of: old, target, unlessIn: copy.file, keybag) }
        try copy.publish(replacing: true, isLast: false)
        switch wholeness {
        case .whole: if kept == nil { try removeEarlier(of: target, copy.file) }
        case .damaged(let damage): throw damage
        case .unknown: break
        }
        if let kept, isLater(kept, than: copy.file) { earlier.hold(kept) }
        if try isHeld(target, against: copy.file) { throw Self.lostCommits(source.path) }
        return true
    }

    /// Removes an earlier copy that was held and is brought back: there is room for one, and the later one is about to be replaced.
    private func releaseEarlier(of target: DirectoryEntry, _ copy: LowerFile) throws(DataProtectionError) {
        guard let entry = try earlier.copy(of: target), let kept = try oldCopy(entry), earlier.isHeld(kept),
            !isHeld(kept, against: copy)
        else { return }
        try earlier.remove(of: target)
    }

    /// Whether the earlier copy of a copy has commits that the copy does not have, and so stays until somebody removes it or brings it back.
    private func isHeld(_ target: DirectoryEntry, against copy: LowerFile) throws(DataProtectionError) -> Bool {
        guard let entry = try earlier.copy(of: target), let kept = try oldCopy(entry) else { return false }
        return isHeld(kept, against: copy)
    }

    private func isHeld(_ kept: LowerFile, against copy: LowerFile) -> Bool {
        if isLater(kept, than: copy) { return true }
        // The counter of the file passes that of the copy at some time, without the commits that are only there.
        guard earlier.isHeld(kept) else { return false }
        let (old, new) = (
            try? ProtectedFileInfo.state(of: kept).content, try? ProtectedFileInfo.state(of: copy).content
        )
        return old == nil || old != new
    }

    /// Whether a copy has commits of the same file that another one does not have: somebody has cut or altered the file, or has put an older
    /// state of it back.
    private func isLater(_ old: LowerFile, than new: LowerFile) -> Bool {
        guard let old = try? ProtectedFileInfo.state(of: old), let new = try? ProtectedFileInfo.state(of: new) else {
            return false
        }
        return old.isLater(than: new)
    }

    private static func lostCommits(_ path: FilePath) -> DataProtectionError {
        .damaged(
            path, .head,
            reason:
                "it lacks commits that its earlier copy in the backup has, which stays there until it is removed or restored",
            offset: nil)
    }

    /// Judges a copy that was made while nothing could be verified: when it is known to be whole, the earlier one goes.
    ///
    /// - Throws: `damaged`, about the file at `path`, which the copy is the same as.
    private func settle(
        _ target: DirectoryEntry, _ copy: LowerFile, _ path: FilePath
    ) throws(DataProtectionError) {
        let entry = try earlier.copy(of: target)
        guard entry != nil || earlier.isMarkedUnverified(copy) else { return }
        switch Wholeness(of: copy, named: path, needsBothHeads: false, keybag) {
        case .whole:
            try? earlier.markVerified(copy)  // a mark too many, as on another owner's file, makes it give way sooner
            if let entry, let kept = try oldCopy(entry), isHeld(kept, against: copy) { throw Self.lostCommits(path) }
            try removeEarlier(of: target, copy)
        case .damaged(let damage): throw damage
        case .unknown: break
        }
    }

    /// Removes the earlier copy if its class key is here: only then has the user had a chance to see what took its place.
    private func removeEarlier(of target: DirectoryEntry, _ copy: LowerFile) throws(DataProtectionError) {
        guard let entry = try earlier.copy(of: target), let file = try oldCopy(entry), isOpen(file),
            !isHeld(file, against: copy)
        else { return }
        // The new name must last first.
        try target.directory.flush()
        try earlier.keepAppendedBytes(of: file, target, unlessIn: copy, keybag)
        try earlier.remove(of: target)
    }

    /// Whether the class key of a copy is here.
    private func isOpen(_ file: LowerFile) -> Bool {
        guard let head = try? ProtectedFileInfo.state(of: file).heads.head, let state = try? keybag.state() else {
            return false
        }
        return AccessRule.opens(head.wrap.classKey.protectionClass, in: state)
    }

    /// Whether the backup opens what is under that class key.
    private func requireKey(_ state: FileState, _ path: FilePath) throws(DataProtectionError) {
        let name = state.heads.head.wrap.classKey
        guard name.keybag == keybag.uuid else { throw .because(FileFailure.foreignKeybag(path, name.keybag)) }
        guard let entry = try keybag.entry(of: name) else { throw .keyLost(keybag, path, name) }
        guard stored.holds(entry) else {
            throw .because(
                TreeFailure.keyNotInBackup(path, name.protectionClass, generation: name.generation, backup: backup))
        }
    }

    /// The copy of that name if it has the same length, time of writing and heads: every commit changes a head. Then only
    /// mode and attributes can be others.
    private func copyThatIsThere(
        _ name: FilePath.Component, in directory: LowerDirectory, _ file: LowerFile, _ state: FileState
    ) throws(DataProtectionError) -> LowerFile? {
        guard let there = try directory.status(of: name), there.st_mode & S_IFMT == S_IFREG else { return nil }
        let now = try file.status()
        guard there.st_size == now.st_size, there.st_mtim.isSame(as: now.st_mtim),
            let old = try? directory.file(name, flags: O_RDONLY, path: directory.path.entry(name)),
            try state.heads.isUnchanged(in: old)
        else { return nil }
        let kept = 0o777 & FileAttributes.Permissions(of: there, copiedFrom: now).mask
        let hasMode = there.st_mode & 0o777 == now.st_mode & kept | S_IRUSR
        if !hasMode || !now.st_ctim.isBefore(there.st_ctim) { try copyAttributes(from: file, to: old) }
        return old
    }

    /// Puts a copy in the place of the earlier one if that has been there only until this one was verified, which it is now.
    private func takesPlace(_ kept: LowerFile, of target: DirectoryEntry) throws(DataProtectionError) -> Bool {
        guard case .whole = Wholeness(of: kept, named: kept.path, needsBothHeads: false, keybag) else { return false }
        try removeEarlier(of: target, kept)
        return try earlier.keep(kept, of: target) == nil
    }

    /// Whether a copy is whole, or may have been when it was made.
    private func mayBeVerified(_ copy: LowerFile) -> Bool {
        switch Wholeness(of: copy, named: copy.path, needsBothHeads: false, keybag) {
        case .whole: true
        case .damaged: false
        case .unknown: !earlier.isUnverified(copy)
        }
    }

    private func isUndamaged(_ copy: LowerFile) -> Bool {
        Wholeness(of: copy, named: copy.path, needsBothHeads: false, keybag).damage == nil
    }

    /// The copy that is there.
    ///
    /// - Throws: `system` if it cannot be read: nobody knows what it ends in.
    private func oldCopy(_ target: DirectoryEntry) throws(DataProtectionError) -> LowerFile? {
        guard let there = try target.directory.status(of: target.name), there.st_mode & S_IFMT == S_IFREG else {
            return nil
        }
        let old = try target.directory.file(target.name, flags: O_RDONLY, path: target.path)
        return try old.isOneOfOurs() ? old : nil
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
