import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// One file on its way out of a backup: the same data under the restorer's own class key. FORMAT.md §2.16, *Restoring*.
///
/// File id and file key stay, so a file that was restored before is recognised. Everything is opened once before the file gets its
/// name, because the backup may be gone when somebody opens it next.
package struct RestoredFile {
    package let opened: OpenedBackup
    package let keybag: Keybag

    package init(opened: OpenedBackup, keybag: Keybag) { (self.opened, self.keybag) = (opened, keybag) }

    /// What a restore does where there is something already.
    package enum Conflict {
        /// `exists`, unless it is the same and undamaged.
        case refuse
        case replace
        /// Everything is done but giving the file a name.
        case onlyTry
    }

    /// Brings a file back. It appears whole, opened once from beginning to end, or not at all.
    ///
    /// - Parameter target: its directory; the name does not last before that is flushed.
    /// - Returns: false if it is there already, with the same contents and undamaged.
    /// - Throws: `damaged`, `keyLost`, `foreignKeybag`, `notProtected`; `exists`, `busy`; `locked` unless the keybag is unlocked; `system`, also
    ///   if what is there cannot be read, or what was appended to it cannot be saved beside it.
    package func restore(
        _ source: DirectoryEntry, to target: DirectoryEntry, _ conflict: Conflict
    ) throws(DataProtectionError) -> Bool {
        let file = try source.directory.file(source.name, flags: O_RDONLY, path: source.path)
        try file.requireOneOfOurs()
        var replaced = conflict == .replace ? try ReplacedFile(target) : nil
        // What stays may be unreadable: it only matters that it is there.
        let old =
            replaced?.file
            ?? (conflict == .refuse
                ? try? target.directory.file(target.name, flags: O_RDONLY, path: target.path) : nil)
        if let old {
            if isSame(old, file) {
                switch Wholeness(of: old, named: target.path, needsBothHeads: true, keybag) {
                case .whole, .unknown(nil): return false
                // The backup may have the key that this keybag has lost.
                case .damaged, .unknown(.because(KeybagFailure.keyLost)?): break
                // For example a lock has come: nobody has looked at its bytes.
                case .unknown(let error?): throw error
                }
            }
            guard conflict == .replace else { throw .exists(target.path) }
        } else if conflict == .refuse, try target.directory.status(of: target.name) != nil {
            throw .exists(target.path)
        }
        defer { withExtendedLifetime(replaced) {} }
        let copy = try UnnamedFile(target)
        try ProtectedFile.copyBytes(from: file, to: copy.file)
        try rewrap(copy.file, source.path, atLeast: classHeld(by: &replaced))
        try Wholeness.require(copy.file, named: source.path, keybag)
        try FileAttributes.copy(from: file, to: copy.file, keepingOwner: false)
        try copy.file.flushAll()
        try replaced?.saveAppendedBytes(keybag)
        let mark = try keybag.markForName(copy.file)
        defer { withExtendedLifetime(mark) {} }
        if conflict != .onlyTry { try copy.publish(replacing: conflict == .replace, isLast: false) }
        return true
    }

    /// The weakest class that the file may get which replaces another one, whose class nobody changes any more; nil if there is none, or it is not
    /// protected. Of one that is damaged or cannot be read nobody knows the class.
    private func classHeld(by replaced: inout ReplacedFile?) throws(DataProtectionError) -> ProtectionClass? {
        try replaced?.holdClass()
        return replaced.flatMap { InheritedClass.least(inPlaceOf: $0.file, keybag) }
    }

    /// Whether a file is what an earlier restore made of this one, and nobody has written to it since.
    private func isSame(_ there: LowerFile, _ file: LowerFile) -> Bool {
        guard let there = try? ProtectedFileInfo.state(of: there), let state = try? ProtectedFileInfo.state(of: file)
        else { return false }
        let (own, head) = (there.heads.head, state.heads.head)
        // The content in force can be that of a record, and not of a head.
        return own.wrap.classKey.keybag == keybag.uuid && own.prefix == head.prefix
            && own.content == head.content && there.content == state.content
            && own.wrap.commitment == head.wrap.commitment
    }

    /// Puts the file key under the active class key of our own keybag, in both slots.
    ///
    /// - Parameter least: the weakest class that it may have: that of the file that it replaces may have been raised since the backup.
    private func rewrap(
        _ file: LowerFile, _ path: FilePath, atLeast least: ProtectionClass?
    ) throws(DataProtectionError) {
        let heads: HeadPair
        do throws(DataProtectionError) { heads = try HeadPair(of: file) } catch { throw error.about(path) }
        // Afterwards nothing would show it.
        if try withKeys({ () throws(KeyError) in try heads.damagedSlot() }) == .mayBeNewer {
            throw .damaged(path, .head, reason: "later commits cannot be reached", offset: nil)
        }
        let head = heads.head
        let fileKey = try opened.fileKey(of: head, path: path)
        let headKey: FileKeys.Kept
        do throws(KeyError) { headKey = FileKeys.Kept(try fileKey.headKey(of: head.prefix.fileID)) } catch {
            throw .cryptography(error)
        }
        try withFormat(path) { () throws(FormatError) in try head.authenticate(under: headKey.bytes) }
        let old = head.wrap.classKey.protectionClass
        let wrap: WrapRecord
        do {
            var session = KeySession(keybag)  // over before anything is written
            wrap = try session.wrap(
                fileKey, of: head.prefix.fileID, as: max(old, least ?? old), counter: head.wrap.counter + 1,
                carrying: try opened.verdict(of: head), path: file.path, .create)
        }
        let bytes = try withKeys { () throws(KeyError) in
            try head.replacing(wrap: wrap, bytes: wrap.sealed(in: head.prefix, under: headKey.bytes)).encoded()
        }
        // It has no name yet, and nobody reads it: the order of these two does not matter.
        for slot in 0..<2 { try file.write(bytes, at: UInt64(slot * Head.length)) }
    }
}
