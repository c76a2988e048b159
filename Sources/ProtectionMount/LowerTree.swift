import DataProtection
import DurableFiles
import FuseSession
import Glibc
import MountRules
import Synchronization
import SystemPackage

/// The directory that is mounted, and what the kernel knows of it.
///
/// A node is reached from the root by one name after the other, none of which is followed if it is a link. So whoever swaps directories and
/// links below the mount gets nothing read elsewhere. A name that leads to another file by now is ESTALE.
final class LowerTree: Sendable {
    let root: LowerDirectory
    private let device: UInt64
    private let nodes: Mutex<NodeTable>
    /// Directories that were reached before. They stay those that they were, wherever they are moved.
    private let directories = Mutex<[FuseNode: LowerDirectory]>([:])
    private static let cachedDirectories = 256

    init(_ root: LowerDirectory) throws(DataProtectionError) {
        self.root = root
        let identity = NodeTable.Identity(try root.status())
        device = identity.device
        nodes = Mutex(NodeTable(root: identity))
    }

    /// Notes that the kernel is given this entry.
    ///
    /// - Throws: `notSupported` for the root of another mount of protectfs: its pages would be cached a second time, as those of a plaintext
    ///   file, and no lock would drop them.
    func found(
        _ status: stat, as name: FilePath.Component, in parent: FuseNode
    ) throws(Errno) -> FuseNode {
        let identity = NodeTable.Identity(status)
        if identity.device != device { try Self.refuseMount(identity.device) }
        return nodes.withLock { $0.found(identity, as: name, in: parent) }
    }

    private static func refuseMount(_ device: UInt64) throws(Errno) {
        let name = MountTable.device(device)
        let mounts = try refusing { () throws(DataProtectionError) in try MountTable.seen().mounts }
        guard !mounts.contains(where: { $0.device == name && $0.type == MountNote.type }) else { throw .notSupported }
    }

    /// The inode number that programs see. Two file systems can have files of one number, and programs such as cp(1) would take them for
    /// hard links.
    func inode(_ status: stat, of node: FuseNode) -> ino_t {
        UInt64(status.st_dev) == device ? status.st_ino : ino_t(1 << 63 | node)
    }

    /// - Returns: the nodes that are no more.
    func forget(_ node: FuseNode, _ count: UInt64) -> [FuseNode] {
        let gone = nodes.withLock { $0.forget(node, count) }
        if !gone.isEmpty { directories.withLock { directories in for node in gone { directories[node] = nil } } }
        return gone
    }

    /// The directory that a node is.
    func directory(_ node: FuseNode) throws(Errno) -> LowerDirectory {
        let known = directories.withLock { $0 }
        guard let way = nodes.withLock({ $0.way(to: node) { known[$0] != nil } }) else { throw .staleNFSFileHandle }
        var reached = root
        if let first = way.last {
            guard let place = nodes.withLock({ $0.place(of: first) }) else { throw .staleNFSFileHandle }
            reached = known[place.parent] ?? root
        } else {
            reached = known[node] ?? root
        }
        for node in way.reversed() {
            guard let place = nodes.withLock({ $0.place(of: node) }) else { throw .staleNFSFileHandle }
            let next = try refusing { () throws(DataProtectionError) in
                try reached.directory(place.name, staying: false)
            }
            try require(node, is: try refusing { () throws(DataProtectionError) in try next.status() })
            directories.withLock { directories in
                if directories.count >= Self.cachedDirectories { directories = [:] }
                directories[node] = next
            }
            reached = next
        }
        return reached
    }

    /// The directory that a node is in, and its name there.
    func place(of node: FuseNode) throws(Errno) -> (LowerDirectory, FilePath.Component) {
        guard let place = nodes.withLock({ $0.place(of: node) }) else { throw .staleNFSFileHandle }
        return (try directory(place.parent), place.name)
    }

    /// lstat(2).
    func status(of node: FuseNode) throws(Errno) -> stat {
        if node == NodeTable.root { return try refusing { () throws(DataProtectionError) in try root.status() } }
        let (directory, name) = try place(of: node)
        let found = try refusing { () throws(DataProtectionError) in try directory.status(of: name) }
        guard let found else { throw .staleNFSFileHandle }
        try require(node, is: found)
        return found
    }

    /// The regular file that a node is, opened for reading, or as `flags` say.
    func file(_ node: FuseNode, flags: Int32 = O_RDONLY) throws(Errno) -> LowerFile {
        let (directory, name) = try place(of: node)
        let file = try staleIfGone { () throws(DataProtectionError) in
            try directory.file(name, flags: flags, path: directory.path.appending(name))
        }
        try require(node, is: try refusing { () throws(DataProtectionError) in try file.status() })
        return file
    }

    /// Whatever a node is, a link too, opened for its attributes alone.
    func item(_ node: FuseNode) throws(Errno) -> LowerFile {
        if node == NodeTable.root {
            return try refusing { () throws(DataProtectionError) in
                let own = try retrying(root.path, "fcntl") { fcntl(root.descriptor, F_DUPFD_CLOEXEC, 0) }
                return LowerFile(path: root.path, descriptor: own)
            }
        }
        let (directory, name) = try place(of: node)
        let item = try staleIfGone { () throws(DataProtectionError) in try directory.item(name) }
        try require(node, is: try refusing { () throws(DataProtectionError) in try item.status() })
        return item
    }

    // MARK: changes

    /// Notes that the file of this status was renamed.
    func moved(_ status: stat, to name: FilePath.Component, in parent: FuseNode) {
        nodes.withLock { $0.moved(NodeTable.Identity(status), to: name, in: parent) }
    }

    /// Notes that the file of this status, as it was before, has lost a name.
    func removed(_ status: stat) {
        guard status.st_mode & S_IFMT == S_IFDIR || status.st_nlink <= 1 else { return }
        nodes.withLock { $0.removed(NodeTable.Identity(status)) }
    }

    /// The node of the file with this status; nil if the kernel does not know it.
    func node(of status: stat) -> FuseNode? { nodes.withLock { $0.number(of: NodeTable.Identity(status)) } }

    /// A file may have lost the name by which it was found last, and have others: the kernel looks it up again when it is told ESTALE.
    private func staleIfGone<R>(_ body: () throws(DataProtectionError) -> R) throws(Errno) -> R {
        do throws(Errno) { return try refusing(body) } catch {
            throw error == .noSuchFileOrDirectory ? .staleNFSFileHandle : error
        }
    }

    private func require(_ node: FuseNode, is status: stat) throws(Errno) {
        guard nodes.withLock({ $0.identity(of: node) }) == NodeTable.Identity(status) else {
            throw .staleNFSFileHandle
        }
    }
}

extension NodeTable.Identity {
    init(_ status: stat) { self.init(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)) }
}
