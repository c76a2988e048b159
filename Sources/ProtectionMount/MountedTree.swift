import DataProtection
import DurableFiles
import FuseSession
import Glibc
import MountRules
import ProtectedFiles
import SystemPackage

/// A directory as its mount shows it, read-only: names, modes and times of the directory below, plaintext sizes, and the plaintext of what the
/// lock state lets open. Files that are not protected are shown as they are.
final class MountedTree: FuseFileSystem {
    let tree: LowerTree
    let files: OpenedFiles
    let pages: PageGuard
    private let directories = HandleTable<[FilePath.Component]>()

    /// For how long the kernel may believe what it was told, in seconds: programs that do not use the mount change files, too.
    private static let lifetime = 1.0

    init(_ tree: LowerTree, keybag: Keybag) {
        self.tree = tree
        pages = PageGuard(keybag)
        files = OpenedFiles(keybag, pages)
    }

    // MARK: names

    func lookUp(_ name: FilePath.Component, in directory: FuseNode) throws(Errno) -> FuseEntry {
        guard !Self.isHidden(name) else { throw .noSuchFileOrDirectory }
        let lower = try tree.directory(directory)
        let status = try refusing { () throws(DataProtectionError) in try lower.status(of: name) }
        guard let status else { throw .noSuchFileOrDirectory }
        let shown = Self.shown(status, name, in: lower)
        return FuseEntry(tree.found(status, as: name, in: directory), FuseAttributes(shown, lifetime: Self.lifetime))
    }

    func forget(_ node: FuseNode, _ count: UInt64) { pages.forget(tree.forget(node, count)) }

    func attributes(of node: FuseNode) throws(Errno) -> FuseAttributes {
        var status = try tree.status(of: node)
        if status.st_mode & S_IFMT == S_IFREG {
            let (directory, name) = try tree.place(of: node)
            status = Self.shown(status, name, in: directory)
        }
        return FuseAttributes(status, lifetime: Self.lifetime)
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
    private static func isHidden(_ name: FilePath.Component) -> Bool {
        let text = name.string
        return text.hasPrefix(".") && (text.contains(".protectfs-unfinished-") || text.contains(".protectfs-download-"))
    }

    /// The status with the size that a program reads: of a protected file that of its plaintext, which needs no key.
    private static func shown(_ status: stat, _ name: FilePath.Component, in directory: LowerDirectory) -> stat {
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size > 0,
            let file = try? directory.file(name, flags: O_RDONLY, path: directory.path.appending(name)),
            let info = try? ProtectedFileInfo(path: file.path, file: file)
        else { return status }
        var shown = status
        shown.st_size = off_t(info.size)
        return shown
    }

    // MARK: directories

    func openDirectory(_ node: FuseNode) throws(Errno) -> UInt64 {
        let directory = try tree.directory(node)
        var names: [FilePath.Component] = [".", ".."]
        _ = try refusing { () throws(DataProtectionError) in
            try directory.forEachName { name in
                if !Self.isHidden(name) { names.append(name) }
                return true
            }
        }
        return directories.add(names)
    }

    func list(
        _ handle: UInt64, of node: FuseNode, from first: Int, take: (FilePath.Component, FuseEntry) -> Bool
    ) throws(Errno) {
        guard let names = directories[handle] else { throw .badFileDescriptor }
        guard first < names.count else { return }
        for name in names[first...] {
            if name.kind != .regular {
                guard take(name, Self.unlooked(S_IFDIR)) else { return }
                continue
            }
            let entry: FuseEntry
            do throws(Errno) { entry = try lookUp(name, in: node) } catch {
                guard error == .noSuchFileOrDirectory else { throw error }
                // Removed since the directory was opened. The number of each entry is its place in the list, so something has to be there.
                guard take(name, Self.unlooked(S_IFREG)) else { return }
                continue
            }
            guard take(name, entry) else {
                forget(entry.node, 1)
                return
            }
        }
    }

    /// An entry of which the kernel keeps nothing but the name: it asks again when somebody uses it.
    private static func unlooked(_ kind: mode_t) -> FuseEntry {
        var status = stat()
        status.st_mode = kind
        return FuseEntry(0, FuseAttributes(status, lifetime: 0))
    }

    func releaseDirectory(_ handle: UInt64) { directories.remove(handle) }

    // MARK: files

    func open(_ node: FuseNode) throws(Errno) -> UInt64 { try files.open(try tree.file(node), as: node) }

    func read(
        _ handle: UInt64, of node: FuseNode, from offset: UInt64, count: Int, reply: (UnsafeRawBufferPointer) -> Void
    ) throws(Errno) {
        try files.read(handle, of: node, from: offset, count: count, reply: reply)
    }

    func release(_ handle: UInt64, of node: FuseNode) { files.release(handle, of: node) }

    // MARK: extended attributes

    func attribute(_ name: String, of node: FuseNode) throws(Errno) -> [UInt8] {
        // ACLs of the files below mean nothing here: one user has the mount.
        guard name.hasPrefix("user.") else { throw .notSupported }
        let kind = try tree.status(of: node).st_mode & S_IFMT
        if kind == S_IFDIR {
            let directory = try tree.directory(node)
            return try refusing { () throws(DataProtectionError) in try ExtendedAttributes.get(name, in: directory) }
        }
        guard kind == S_IFREG else { throw .noData }
        let file = try tree.file(node)
        if name == DirectoryDefault.attribute {
            guard let info = try? ProtectedFileInfo(path: file.path, file: file) else { throw .noData }
            return Array(info.protectionClass.shortName.utf8)
        }
        guard let value = ExtendedAttributes.get(name, of: file.descriptorPath) else { throw .noData }
        return value
    }

    /// The class is hidden: `cp -a` would carry it to copies that have a class of their own.
    func attributeNames(of node: FuseNode) throws(Errno) -> [UInt8] { [] }
}
