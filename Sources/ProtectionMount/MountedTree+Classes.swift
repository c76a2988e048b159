import DataProtection
import DurableFiles
import FuseSession
import Glibc
import MountRules
import ProtectedFiles
import SystemPackage

/// The classes that files get because of other files that had their names. Programs cannot choose a class, so none of them may lower one by the way
/// in which it saves.
extension MountedTree {
    /// The class of a file that is about to lose its name; nil if it is not protected.
    func leastClass(
        _ name: FilePath.Component, _ status: stat?, in lower: LowerDirectory
    ) -> ProtectionClass? {
        guard let status, status.isRegular, status.st_size > 0 else { return nil }
        do throws(DataProtectionError) {
            return InheritedClass.least(inPlaceOf: try lower.fileUntouched(name), files.keybag)
        } catch {
            return .complete  // nobody can tell
        }
    }

    /// The file that had this name has lost it.
    func lost(_ name: FilePath.Component, _ protectionClass: ProtectionClass?, in directory: FuseNode) {
        guard let protectionClass, let path = tree.path(name, in: directory) else { return }
        remembered.withLock { $0.remember(protectionClass, as: path) }
    }

    /// The class that a file must have at least that gets this name; nil: any.
    func remembered(_ name: FilePath.Component, in directory: FuseNode) -> ProtectionClass? {
        guard let path = tree.path(name, in: directory) else { return nil }
        return remembered.withLock { $0.protectionClass(of: path) }
    }

    /// A directory was renamed.
    func moved(
        _ name: FilePath.Component, in directory: FuseNode, to newName: FilePath.Component, in newDirectory: FuseNode
    ) {
        guard let old = tree.path(name, in: directory), let new = tree.path(newName, in: newDirectory) else { return }
        remembered.withLock { $0.moved(directory: old, to: new) }
    }

    /// Before a file gets a name that nothing has now: it gets the class of the file that lost it last, if that is stronger.
    func prepare(
        _ entry: DirectoryEntry, _ status: stat, toTake name: FilePath.Component, in directory: FuseNode
    ) throws(DataProtectionError) {
        guard status.isRegular, let least = remembered(name, in: directory) else { return }
        try commitWrites(to: status)
        try raise(entry, to: least)
    }

    /// Before one file takes the place of another: what was written to it is committed, and it gets the class of the other file if that is
    /// stronger. If it is not protected, whatever gets the name next is to have that class.
    ///
    /// - Returns: to be kept until it is done.
    func prepare(
        _ entry: DirectoryEntry, _ status: stat, toReplace replaced: DirectoryEntry, _ target: stat,
        in directory: FuseNode
    ) throws(DataProtectionError) -> ReplacedFile? {
        let keybag = files.keybag
        try commitWrites(to: status)
        let writtenTarget = tree.node(of: target).flatMap { files.writers[$0] }
        var held = writtenTarget == nil ? try ReplacedFile.hold(replaced, keybag) : nil
        try held?.holdClass()
        guard let old = held?.file ?? writtenTarget?.lower else { return held }
        let least = InheritedClass.least(inPlaceOf: old, keybag)
        if try !raise(entry, to: least) { lost(replaced.name, least, in: directory) }
        return held
    }

    /// Before two files exchange their names: what was written to them is committed, and both get the stronger of their classes. Where one of them
    /// is not protected, the name of the other one keeps its class.
    func prepareToExchange(
        _ one: DirectoryEntry, _ first: stat, _ directory: FuseNode, _ other: DirectoryEntry, _ second: stat,
        _ otherDirectory: FuseNode
    ) throws(DataProtectionError) {
        for status in [first, second] { try commitWrites(to: status) }
        for (entry, replaced, place) in [(one, other, otherDirectory), (other, one, directory)] {
            let old = try replaced.directory.file(replaced.name, flags: O_RDONLY, path: replaced.path)
            let least = InheritedClass.least(inPlaceOf: old, files.keybag)
            if try !raise(entry, to: least) { lost(replaced.name, least, in: place) }
        }
    }

    /// Commits what programs have written to the file of this status.
    private func commitWrites(to status: stat) throws(DataProtectionError) {
        guard let node = tree.node(of: status) else { return }
        try reporting { () throws(Errno) in
            try commitLeft(node)
            try files.writers[node]?.commit()
        }
    }

    /// Gives a protected file this class, if that is stronger than its own. The class of its own is proved, where its class key is here.
    ///
    /// - Returns: false if it is not protected.
    @discardableResult
    private func raise(_ entry: DirectoryEntry, to least: ProtectionClass?) throws(DataProtectionError) -> Bool {
        let new = try entry.directory.fileUntouched(entry.name)
        guard let least, try new.isOneOfOurs() else { return false }
        if try files.keybag.isAtLeast(least, try HeadPair(lookingAt: new).head, new.path) { return true }
        let open = try new.forHeads { () throws(DataProtectionError) in
            try entry.directory.file(entry.name, flags: O_RDWR, path: entry.path)
        }
        try files.keybag.setProtection(least, of: open, allowsWeaker: false)
        return true
    }
}

extension stat {
    var isRegular: Bool { st_mode & S_IFMT == S_IFREG }
}
