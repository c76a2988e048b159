import DataProtection
import DurableFiles
import FuseSession
import Glibc
import ProtectedFiles
import SystemPackage

/// What programs change. Everything is done in open directories and on open files of the tree below, so that no link leads elsewhere.
extension MountedTree {
    // MARK: files

    /// A new file has the class that the rules for new files give it, or that of the last file of this name if that is stronger. It has its head
    /// before its name, and both last when this returns.
    func create(
        _ name: FilePath.Component, in directory: FuseNode, mode: mode_t, flags: Int32
    ) throws(Errno) -> (FuseEntry, FuseHandle) {
        let lower = try place(for: name, in: directory)
        let made: ProtectedFile
        do throws(Errno) {
            made = try refusing { () throws(DataProtectionError) in
                try ProtectedFile.create(
                    DirectoryEntry(name, in: lower), atLeast: remembered(name, in: directory), mode: mode,
                    keybag: files.keybag)
            }
        } catch {
            // Somebody has made it meanwhile, beside the mount.
            guard error == .fileExists, flags & O_EXCL == 0 else { throw error }
            let entry = try lookUp(name, in: directory)
            do throws(Errno) { return (entry, try open(entry.node, flags: flags)) } catch {
                forget(entry.node, 1)
                throw error
            }
        }
        let status = try refusing { () throws(DataProtectionError) in try made.lower.status() }
        let entry = try entry(status, name, in: lower, directory)
        do throws(Errno) { return (entry, try files.opened(made, as: entry.node)) } catch {
            forget(entry.node, 1)
            throw error
        }
    }

    func write(
        _ handle: UInt64, flags: Int32, of node: FuseNode, at offset: UInt64, _ bytes: UnsafeRawBufferPointer,
        _ way: FuseWrite
    ) throws(Errno) {
        try openAgain(handle, of: node, flags: flags)
        try files.write(handle, flags: flags, at: offset, bytes, way)
    }

    func flush(_ handle: UInt64, of node: FuseNode) throws(Errno) {
        try commitLeft(node)
        try files.flush(handle, of: node)
    }

    func synchronize(_ handle: UInt64, of node: FuseNode) throws(Errno) {
        try commitLeft(node)
        try files.synchronize(handle, of: node) { () throws(Errno) in try file(node, flags: O_RDONLY) }
    }

    func synchronizeDirectory(_ node: FuseNode) throws(Errno) {
        let lower = try tree.directory(node)
        try refusing { () throws(DataProtectionError) in try lower.flush() }
    }

    // MARK: names

    /// The directory in which something is to get that name.
    private func place(for name: FilePath.Component, in directory: FuseNode) throws(Errno) -> LowerDirectory {
        // These names are taken by protectfs, which shows and keeps no such file.
        guard name.kind == .regular, !Self.isHidden(name) else { throw .notPermitted }
        return try tree.directory(directory)
    }

    func makeDirectory(_ name: FilePath.Component, in directory: FuseNode, mode: mode_t) throws(Errno) -> FuseEntry {
        let lower = try place(for: name, in: directory)
        // The kernel has applied the umask of the program. This process has none.
        try refusing { () throws(DataProtectionError) in try lower.makeDirectory(name, mode: mode) }
        return try lookUp(name, in: directory)
    }

    func makeNode(_ name: FilePath.Component, in directory: FuseNode, mode: mode_t) throws(Errno) -> FuseEntry {
        switch mode & S_IFMT {
        case S_IFREG, 0:
            let (entry, handle) = try create(name, in: directory, mode: mode & 0o7777, flags: O_EXCL)
            release(handle.number, of: entry.node)
            return entry
        case S_IFIFO, S_IFSOCK:
            let lower = try place(for: name, in: directory)
            try refusing { () throws(DataProtectionError) in try lower.makeNode(name, mode: mode) }
            return try lookUp(name, in: directory)
        // The mount has no devices.
        default: throw .notPermitted
        }
    }

    func makeLink(
        _ name: FilePath.Component, in directory: FuseNode, to target: UnsafePointer<CChar>
    ) throws(Errno) -> FuseEntry {
        let lower = try place(for: name, in: directory)
        try refusing { () throws(DataProtectionError) in try lower.makeLink(name, to: target) }
        return try lookUp(name, in: directory)
    }

    func link(_ node: FuseNode, as name: FilePath.Component, in directory: FuseNode) throws(Errno) -> FuseEntry {
        let lower = try place(for: name, in: directory)
        let item = try item(node)
        try refusing { () throws(DataProtectionError) in
            let status = try item.status()
            // A file that has lost its last name gets none again: linkat(2).
            if status.st_nlink > 0, let (own, ownName) = try? tree.place(of: node) {
                try prepare(DirectoryEntry(ownName, in: own), status, toTake: name, in: directory)
            }
            try lower.link(item, as: name)
        }
        return try lookUp(name, in: directory)
    }

    func remove(_ name: FilePath.Component, in directory: FuseNode, isDirectory: Bool) throws(Errno) {
        guard !Self.isHidden(name) else { throw .noSuchFileOrDirectory }
        let lower = try tree.directory(directory)
        try refusing { () throws(DataProtectionError) in
            let status = try lower.status(of: name)
            let least = leastClass(name, status, in: lower)
            tree.keep(status, name, in: lower, directory)
            do throws(DataProtectionError) { try lower.unlink(name, isDirectory: isDirectory) } catch {
                tree.keepsName(status)
                // What a killed process left is not shown, and must not keep the directory.
                guard isDirectory, error.errno == .directoryNotEmpty else { throw error }
                Leftovers.remove(in: try lower.directory(name, staying: false))
                try lower.unlink(name, isDirectory: true)
            }
            lost(name, least, in: directory)
            if let status { tree.removed(status) }
        }
    }

    func rename(
        _ name: FilePath.Component, in directory: FuseNode, to newName: FilePath.Component, in newDirectory: FuseNode,
        flags: UInt32
    ) throws(Errno) {
        // RENAME_NOREPLACE and RENAME_EXCHANGE of linux/fs.h.
        guard [0, 1, 2].contains(flags) else { throw .invalidArgument }
        guard !Self.isHidden(name) else { throw .noSuchFileOrDirectory }
        let from = try tree.directory(directory)
        let to = try place(for: newName, in: newDirectory)
        if flags == 2 {
            return try exchange(
                DirectoryEntry(name, in: from), directory, DirectoryEntry(newName, in: to), newDirectory)
        }
        try refusing { () throws(DataProtectionError) in
            let source = try from.status(of: name)
            let target = try to.status(of: newName)
            var held: ReplacedFile?
            if flags == 0, let source, let target, source.isRegular, target.isRegular, !source.isSameItem(as: target) {
                held = try prepare(
                    DirectoryEntry(name, in: from), source, toReplace: DirectoryEntry(newName, in: to), target,
                    in: newDirectory)
            } else if let source, let target, flags == 0, !source.isRegular {
                lost(newName, leastClass(newName, target, in: to), in: newDirectory)
            } else if let source, target == nil {
                try prepare(DirectoryEntry(name, in: from), source, toTake: newName, in: newDirectory)
            }
            defer { withExtendedLifetime(held) {} }
            let least = leastClass(name, source, in: from)
            if flags == 0 { tree.keep(target, newName, in: to, newDirectory) }
            do throws(DataProtectionError) { try from.move(name, to: newName, in: to, replacing: flags == 0) } catch {
                tree.keepsName(target)
                throw error
            }
            if let source, let target, source.isSameItem(as: target) {
                tree.keepsName(target)
                return  // rename(2) does nothing then
            }
            lost(name, least, in: directory)
            if let target { tree.removed(target) }
            if let source {
                if source.st_mode & S_IFMT == S_IFDIR { moved(name, in: directory, to: newName, in: newDirectory) }
                tree.moved(source, to: newName, in: newDirectory)
            }
        }
    }

    private func exchange(
        _ one: DirectoryEntry, _ directory: FuseNode, _ other: DirectoryEntry, _ otherDirectory: FuseNode
    ) throws(Errno) {
        try refusing { () throws(DataProtectionError) in
            let (first, second) = (try one.directory.status(of: one.name), try other.directory.status(of: other.name))
            if let first, let second, first.isRegular, second.isRegular {
                try prepareToExchange(one, first, directory, other, second, otherDirectory)
            } else {
                lost(one.name, leastClass(one.name, first, in: one.directory), in: directory)
                lost(other.name, leastClass(other.name, second, in: other.directory), in: otherDirectory)
            }
            try one.directory.exchange(one.name, with: other.name, in: other.directory)
            if let first { tree.moved(first, to: other.name, in: otherDirectory) }
            if let second { tree.moved(second, to: one.name, in: directory) }
        }
    }

    // MARK: attributes

    /// A node for its attributes; an open file may have no name any more.
    private func item(_ node: FuseNode) throws(Errno) -> LowerFile {
        if let open = try files.lower(of: node) { return open }
        return try tree.item(node)
    }

    func change(_ node: FuseNode, _ change: FuseChange, handle: UInt64?) throws(Errno) -> FuseAttributes {
        if handle == nil { try requireNamed(node) }
        if let size = change.size {
            try commitLeft(node)
            if let handle { try openAgain(handle, of: node, flags: O_RDWR) }
            try files.truncate(node, to: size, handle: handle) { () throws(Errno) in try file(node, flags: O_RDWR) }
        }
        let item = try item(node)
        let path = item.descriptorPath
        try refusing { () throws(DataProtectionError) in
            // Before the mode: the kernel takes set-user-ID bits away at chown(2).
            if change.owner != nil || change.group != nil {
                let (owner, group) = (change.owner ?? uid_t.max, change.group ?? gid_t.max)
                _ = try retrying(item.path, "chown") { path.withPlatformString { chown($0, owner, group) } }
            }
            if let mode = change.mode {
                _ = try retrying(item.path, "chmod") { path.withPlatformString { chmod($0, mode) } }
            }
            if change.accessed != nil || change.modified != nil {
                var times = [FileTimes.timespec(change.accessed), FileTimes.timespec(change.modified)]
                _ = try retrying(item.path, "utimensat") {
                    path.withPlatformString { utimensat(AT_FDCWD, $0, &times, 0) }
                }
            }
        }
        if let modified = change.modified { files.writers[node]?.setModified(modified) }
        if change.mode != nil { files.writers[node]?.setMode() }
        return try attributes(of: node)
    }
}
