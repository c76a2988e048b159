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
            return files.keybag.leastClass(
                inPlaceOf: try lower.file(name, flags: O_RDONLY, path: lower.path.entry(name)))
        } catch {
            return .complete  // nobody can tell
        }
    }

    /// The file that had this name has lost it.
    func lost(_ name: FilePath.Component, _ protectionClass: ProtectionClass?, in lower: LowerDirectory) {
        guard let protectionClass, let key = key(name, in: lower) else { return }
        remembered.withLock { $0.remember(protectionClass, as: key) }
    }

    /// The class that a new file of this name must have at least; nil: any.
    func remembered(_ name: FilePath.Component, in lower: LowerDirectory) -> ProtectionClass? {
        guard let key = key(name, in: lower) else { return nil }
        return remembered.withLock { $0.protectionClass(of: key) }
    }

    private func key(_ name: FilePath.Component, in lower: LowerDirectory) -> RememberedClasses.Name? {
        guard let status = try? lower.status() else { return nil }
        return RememberedClasses.Name(
            name, in: NodeTable.Identity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)))
    }

    /// Before one file takes the place of another: what was written to it is committed, and it gets the class of the other file if that is
    /// stronger.
    ///
    /// - Returns: to be kept until it is done.
    func prepare(
        _ entry: DirectoryEntry, _ status: stat, toReplace replaced: DirectoryEntry, _ target: stat
    ) throws(DataProtectionError) -> ReplacedFile? {
        let keybag = files.keybag
        if let written = tree.node(of: status).flatMap({ files.writers[$0] }) {
            try reporting { () throws(Errno) in try written.commit() }
        }
        let writtenTarget = tree.node(of: target).flatMap { files.writers[$0] }
        var held = writtenTarget == nil ? try keybag.holdReplaced(replaced) : nil
        try held?.holdClass()
        guard let old = held?.file ?? writtenTarget?.lower else { return held }
        try raise(entry, toClassOf: old)
        return held
    }

    /// Before two files exchange their names: what was written to them is committed, and both get the stronger of their classes.
    func prepareToExchange(
        _ one: DirectoryEntry, _ first: stat, _ other: DirectoryEntry, _ second: stat
    ) throws(DataProtectionError) {
        for status in [first, second] {
            guard let written = tree.node(of: status).flatMap({ files.writers[$0] }) else { continue }
            try reporting { () throws(Errno) in try written.commit() }
        }
        for (entry, replaced) in [(one, other), (other, one)] {
            let old = try replaced.directory.file(replaced.name, flags: O_RDONLY, path: replaced.path)
            try raise(entry, toClassOf: old)
        }
    }

    /// Gives a protected file the class of another one, if that is stronger.
    private func raise(_ entry: DirectoryEntry, toClassOf old: LowerFile) throws(DataProtectionError) {
        let new = try entry.directory.file(entry.name, flags: O_RDONLY, path: entry.path)
        guard try new.isOneOfOurs() else { return }
        let own = try ProtectedFileInfo(path: new.path, file: new).protectionClass
        guard let least = files.keybag.leastClass(inPlaceOf: old), least > own else { return }
        let open = try new.forHeads { () throws(DataProtectionError) in
            try entry.directory.file(entry.name, flags: O_RDWR, path: entry.path)
        }
        try files.keybag.setProtection(least, of: open, allowsWeaker: false)
    }
}

extension stat {
    var isRegular: Bool { st_mode & S_IFMT == S_IFREG }
}
