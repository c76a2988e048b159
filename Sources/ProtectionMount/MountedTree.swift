import DataProtection
import DurableFiles
import FuseSession
import Glibc
import MountRules
import ProtectedFiles
import Synchronization
import SystemPackage

/// A directory as its mount shows it: names, modes and times of the directory below, plaintext sizes, and the plaintext of what the lock state
/// lets open. Files that are not protected are shown as they are. What changes something is in MountedTree+Changes.swift, attributes are in MountedTree+Attributes.swift.
final class MountedTree: FuseFileSystem {
    let tree: LowerTree
    let files: OpenedFiles
    let pages: PageGuard
    /// The classes of files that lost their names here: see MountedTree+Classes.swift.
    let remembered: Mutex<RecordedClasses>
    /// What is listed through each handle; nil before the first look.
    private let directories: HandleTable<[FilePath.Component]?>

    /// For how long the kernel may believe what it was told, in seconds: programs that do not use the mount change files, too.
    private static let lifetime = 1.0

    /// - Parameter record: that of the tree.
    /// - Throws: why there are no threads for it.
    init(_ tree: LowerTree, keybag: Keybag, _ record: ConnectionRecord? = nil) throws(Errno) {
        self.tree = tree
        pages = try PageGuard(keybag, record)
        files = try OpenedFiles(keybag, pages)
        remembered = Mutex(RecordedClasses(record))
        directories = HandleTable(after: pages.serversBefore)
    }

    // MARK: names

    func lookUp(_ name: FilePath.Component, in directory: FuseNode) throws(Errno) -> FuseEntry {
        guard name.kind == .regular, !Self.isHidden(name) else { throw .noSuchFileOrDirectory }
        let lower = try tree.directory(directory)
        let status = try refusing { () throws(DataProtectionError) in try lower.status(of: name) }
        guard let status else { throw .noSuchFileOrDirectory }
        return try entry(status, name, in: lower, directory)
    }

    /// The entry of what has that name, and this status.
    func entry(
        _ status: stat, _ name: FilePath.Component, in lower: LowerDirectory, _ parent: FuseNode
    ) throws(Errno) -> FuseEntry {
        let node = try tree.found(status, as: name, in: parent)
        do throws(Errno) {
            let shown = try shown(status, of: node) { () throws(DataProtectionError) in try lower.fileUntouched(name) }
            return FuseEntry(node, shown)
        } catch {
            forget(node, 1)
            throw error
        }
    }

    func forget(_ node: FuseNode, _ count: UInt64) {
        // What is to be written into it needs its place.
        if files.left?.isWaiting(node) == true { return }
        pages.forget(tree.forget(node, count))
    }

    func attributes(of node: FuseNode) throws(Errno) -> FuseAttributes {
        // An open file may have no name any more.
        if let open = try files.lower(of: node) {
            let status = try refusing { () throws(DataProtectionError) in try open.status() }
            return try shown(status, of: node) { () in open }
        }
        return try shown(try tree.status(of: node), of: node) { () throws(DataProtectionError) in
            try reporting { () throws(Errno) in try tree.fileUntouched(node) }
        }
    }

    func target(ofLink node: FuseNode) throws(Errno) -> [UInt8] {
        let (directory, name) = try tree.place(of: node)
        var target = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = name.withPlatformString { readlinkat(directory.descriptor, $0, &target, target.count) }
        guard count >= 0 else { throw Errno(rawValue: errno) }
        return Array(target[..<count])
    }

    func statistics() throws(Errno) -> statvfs {
        var statistics = statvfs()
        guard fstatvfs(tree.root.descriptor, &statistics) == 0 else { throw Errno(rawValue: errno) }
        return statistics
    }

    /// What protectfs itself keeps beside files for a moment.
    static func isHidden(_ name: FilePath.Component) -> Bool {
        let text = name.string
        return text.hasPrefix(".") && (text.contains(".protectfs-unfinished-") || text.contains(".protectfs-download-"))
    }

    /// What a program sees of a file with this status: of a protected file the size of its plaintext, which needs no key.
    private func shown(
        _ status: stat, of node: FuseNode, open: () throws(DataProtectionError) -> LowerFile
    ) throws(Errno) -> FuseAttributes {
        try? commitLeft(node)  // until it is possible, the size is the old one
        var shown = status
        shown.st_ino = tree.inode(status, of: node)
        // A writer is asked before the file below: it says what is not committed.
        if try writers[node]?.show(in: &shown) != true, status.st_mode & S_IFMT == S_IFREG, status.st_size > 0 {
            try Self.showSize(in: &shown, open)
        }
        return FuseAttributes(shown, lifetime: Self.lifetime)
    }

    private var writers: Writers { files.writers }

    private static func showSize(
        in shown: inout stat, _ open: () throws(DataProtectionError) -> LowerFile
    ) throws(Errno) {
        do throws(DataProtectionError) {
            let file = try open()
            shown.st_size = off_t(try ProtectedFileInfo(path: file.path, file: file).size)
        } catch {
            switch error.errno {
            // Not protected, damaged, or another kind of file by now; and a file that its owner may not read. They are shown as they are.
            case .badMessage, .invalidArgument, .permissionDenied, .noSuchFileOrDirectory: break
            // For example EMFILE: a wrong size would be worse than none.
            default: throw error.errno
            }
        }
    }

    // MARK: directories

    func openDirectory(_ node: FuseNode) throws(Errno) -> UInt64 {
        // Programs open many directories and list none of them.
        _ = try tree.directory(node)
        return directories.add(nil)
    }

    private func names(in node: FuseNode) throws(Errno) -> [FilePath.Component] {
        let directory = try tree.directory(node)
        var names: [FilePath.Component] = [".", ".."]
        _ = try refusing { () throws(DataProtectionError) in
            try directory.forEachName { name in
                if !Self.isHidden(name) { names.append(name) }
                return true
            }
        }
        return names
    }

    func list(
        _ handle: UInt64, of node: FuseNode, from first: Int, take: (FilePath.Component, FuseEntry) -> Bool
    ) throws(Errno) {
        // From the beginning once more: rewinddir(3) is to show what is there by then. What another server has shown is not known.
        let names: [FilePath.Component]
        if first > 0, let known = directories[handle] ?? nil {
            names = known
        } else {
            names = try self.names(in: node)
            directories.put(names, at: handle)
        }
        guard first < names.count else { return }
        for name in names[first...] {
            if name.kind != .regular {
                guard take(name, Self.unlooked(S_IFDIR, try inode(of: name, node))) else { return }
                continue
            }
            let entry: FuseEntry
            do throws(Errno) { entry = try lookUp(name, in: node) } catch {
                // Removed since, or not to be looked at: a program that uses the name gets the error. The number of each entry is its place in the
                // list, so something has to be there.
                guard take(name, Self.unlooked(0)) else { return }
                continue
            }
            guard take(name, entry) else {
                forget(entry.node, 1)
                return
            }
        }
    }

    /// The inode number of "." or ".." in a directory; nil if it is not known: above the root is another file system.
    private func inode(of dots: FilePath.Component, _ node: FuseNode) throws(Errno) -> ino_t? {
        let shown = dots.kind == .currentDirectory ? node : tree.parent(of: node)
        guard let shown else { return nil }
        return (try? tree.status(of: shown)).map { tree.inode($0, of: shown) }
    }

    /// An entry of which the kernel keeps nothing but the name: it asks again when somebody uses it.
    ///
    /// - Parameter kind: 0 if it is not known.
    private static func unlooked(_ kind: mode_t, _ inode: ino_t? = nil) -> FuseEntry {
        var status = stat()
        status.st_mode = kind
        status.st_ino = inode ?? ino_t(UInt32.max)  // as libfuse has it. readdir(3) leaves out what has none.
        return FuseEntry(0, FuseAttributes(status, lifetime: 0))
    }

    func releaseDirectory(_ handle: UInt64) { directories.remove(handle) }

    // MARK: files

    func open(_ node: FuseNode, flags: Int32) throws(Errno) -> FuseHandle {
        try commitLeft(node)
        try requireNamed(node)
        return try files.open(try file(node, openedFor: flags), as: node, flags: flags)
    }

    /// Before anything is done with a file by its name: a write into an open file that no longer has the name would be lost.
    ///
    /// - Throws: as ``LowerTree/requireNamed(_:)``.
    func requireNamed(_ node: FuseNode) throws(Errno) { if files.isOpen(node) { try tree.requireNamed(node) } }

    /// - Parameter flags: of the program that opens it.
    func file(_ node: FuseNode, openedFor flags: Int32) throws(Errno) -> LowerFile {
        try file(
            node, flags: (flags.wantsWriting ? O_RDWR | flags & O_SYNC : O_RDONLY) | flags & LowerFile.untouched)
    }

    /// The regular file that a node is, opened once more; it may have no name any more if somebody has it open.
    func file(_ node: FuseNode, flags: Int32) throws(Errno) -> LowerFile {
        guard let open = try files.lower(of: node) else { return try tree.file(node, flags: flags) }
        return try open.openedAgain(flags)
    }

    func read(
        _ handle: UInt64, flags: Int32, of node: FuseNode, from offset: UInt64, count: Int,
        reply: (UnsafeRawBufferPointer) -> Void
    ) throws(Errno) {
        try openAgain(handle, of: node, flags: flags)
        try files.read(handle, of: node, from: offset, count: count, reply: reply)
    }

    func release(_ handle: UInt64, of node: FuseNode) { files.release(handle, of: node) }
}
