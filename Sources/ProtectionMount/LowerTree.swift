import DataProtection
import DurableFiles
import FuseSession
import Glibc
import MountRules
import Synchronization
import SystemPackage

/// The directory that is mounted, and what the kernel knows of it.
///
/// A node is reached from the root by one name after the other, none of which is followed if it is a link. So an attacker who swaps directories and
/// links below the mount cannot redirect a read. A name that now leads to another file is ESTALE.
final class LowerTree: Sendable {
    let root: LowerDirectory
    private let device: UInt64
    private let nodes: Mutex<RecordedNodes>
    /// What has lost the name by which it was found last, and is known to the kernel all the same: somebody has it open, or works in it.
    private let kept = Mutex<[FuseNode: LowerFile]>([:])
    /// Directories that were reached before. They stay those that they were, wherever they are moved.
    private let directories = Mutex<[FuseNode: LowerDirectory]>([:])
    private static let cachedDirectories = 256

    /// - Parameter record: of the connection. What it says of another server's nodes is known here, too.
    init(_ root: LowerDirectory, _ record: ConnectionRecord? = nil) throws(Errno) {
        self.root = root
        let identity = NodeTable.Identity(try refusing { () throws(DataProtectionError) in try root.status() })
        device = identity.device
        nodes = Mutex(try RecordedNodes(root: identity, record))
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
        if !gone.isEmpty {
            directories.withLock { directories in for node in gone { directories[node] = nil } }
            kept.withLock { kept in for node in gone { kept[node] = nil } }
        }
        return gone
    }

    /// The directory that a node is.
    func directory(_ node: FuseNode) throws(Errno) -> LowerDirectory {
        if let kept = kept.withLock({ $0[node] }) {
            let again = try refusing { () throws(DataProtectionError) in
                try retrying(kept.path, "open") {
                    kept.descriptorPath.withPlatformString { open($0, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
                }
            }
            return LowerDirectory(kept.path, descriptor: again)
        }
        let known = directories.withLock { $0 }
        guard let way = nodes.withLock({ $0.table.way(to: node) { known[$0] != nil } }) else {
            throw .staleNFSFileHandle
        }
        var reached = root
        if let first = way.last {
            guard let place = nodes.withLock({ $0.table.place(of: first) }) else { throw .staleNFSFileHandle }
            reached = known[place.parent] ?? root
        } else {
            reached = known[node] ?? root
        }
        for node in way.reversed() {
            guard let place = nodes.withLock({ $0.table.place(of: node) }) else { throw .staleNFSFileHandle }
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
        // What has that name by now can have the inode number of what was removed.
        let place = nodes.withLock { $0.table.isRemoved(node) ? nil : $0.table.place(of: node) }
        guard let place else { throw .staleNFSFileHandle }
        return (try directory(place.parent), place.name)
    }

    /// The path of a name in a directory, from the root of the mount, as it was found last; nil beyond PATH_MAX, and if there is no such node.
    func path(_ name: FilePath.Component, in directory: FuseNode) -> FilePath? {
        nodes.withLock { nodes in
            guard let way = nodes.table.way(to: directory, from: { _ in false }) else { return nil }
            let names = way.reversed().compactMap { nodes.table.place(of: $0)?.name } + [name]
            guard names.reduce(0, { $0 + $1.bytes.count + 1 }) < PATH_MAX else { return nil }
            return FilePath(root: nil, names)
        }
    }

    /// lstat(2).
    func status(of node: FuseNode) throws(Errno) -> stat {
        if node == NodeTable.root { return try refusing { () throws(DataProtectionError) in try root.status() } }
        if let kept = kept.withLock({ $0[node] }) {
            return try refusing { () throws(DataProtectionError) in try kept.status() }
        }
        let (directory, name) = try place(of: node)
        let found = try refusing { () throws(DataProtectionError) in try directory.status(of: name) }
        guard let found else { throw .staleNFSFileHandle }
        try require(node, is: found)
        return found
    }

    /// - Throws: ESTALE if something else has the name of a node by now: the kernel then looks the name up again. A node whose last name was
    ///   removed through the mount passes.
    func requireNamed(_ node: FuseNode) throws(Errno) {
        if nodes.withLock({ $0.table.isRemoved(node) }) { return }
        _ = try status(of: node)
    }

    /// The regular file that a node is, opened for reading, or as `flags` say.
    func file(_ node: FuseNode, flags: Int32 = O_RDONLY) throws(Errno) -> LowerFile {
        if let kept = kept.withLock({ $0[node] }) { return try kept.openedAgain(flags) }
        let (directory, name) = try place(of: node)
        let file = try staleIfGone { () throws(DataProtectionError) in
            try directory.file(name, flags: flags, path: directory.path.appending(name))
        }
        try require(node, is: try refusing { () throws(DataProtectionError) in try file.status() })
        return file
    }

    /// The regular file that a node is, for a look that no program has asked for: its time of access stays.
    func fileUntouched(_ node: FuseNode) throws(Errno) -> LowerFile {
        do throws(Errno) { return try file(node, flags: O_RDONLY | LowerFile.untouched) } catch {
            guard error == .notPermitted else { throw error }  // another user's file: open(2)
            return try file(node)
        }
    }

    /// The directory in which a node was found last; nil for the root.
    func parent(of node: FuseNode) -> FuseNode? { nodes.withLock { $0.table.place(of: node)?.parent } }

    /// A node of any kind, links included, opened for its attributes alone.
    func item(_ node: FuseNode) throws(Errno) -> LowerFile {
        if node == NodeTable.root {
            return try refusing { () throws(DataProtectionError) in
                let own = try retrying(root.path, "fcntl") { fcntl(root.descriptor, F_DUPFD_CLOEXEC, 0) }
                return LowerFile(path: root.path, descriptor: own)
            }
        }
        if let kept = kept.withLock({ $0[node] }) {
            return try refusing { () throws(DataProtectionError) in
                LowerFile(path: kept.path, descriptor: try kept.duplicate())
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

    /// Before what has this status loses a name: programs that have it open, or work in it, go on with it. Without a descriptor to spare it is ESTALE
    /// for them.
    func keep(_ status: stat?, _ name: FilePath.Component, in directory: LowerDirectory, _ parent: FuseNode) {
        guard let status, let node = node(of: status) else { return }
        let isLast = status.st_mode & S_IFMT == S_IFDIR || status.st_nlink <= 1
        let place = nodes.withLock { $0.table.place(of: node) }
        guard isLast || place == NodeTable.Place(parent: parent, name: name),
            let item = try? directory.item(name), item.descriptor < OpenedFiles.reserved,
            (try? item.status()).map({ NodeTable.Identity($0) }) == NodeTable.Identity(status)
        else { return }
        kept.withLock { $0[node] = item }
    }

    /// It keeps the name after all.
    func keepsName(_ status: stat?) {
        guard let status, let node = node(of: status) else { return }
        kept.withLock { $0[node] = nil }
    }

    /// Notes that the file of this status, as it was before, has lost a name.
    func removed(_ status: stat) {
        guard status.st_mode & S_IFMT == S_IFDIR || status.st_nlink <= 1 else { return }
        nodes.withLock { $0.removed(NodeTable.Identity(status)) }
    }

    /// The node of the file with this status; nil if the kernel does not know it.
    func node(of status: stat) -> FuseNode? { nodes.withLock { $0.table.number(of: NodeTable.Identity(status)) } }

    /// A file may have lost the name by which it was found last, and have others: the kernel looks it up again when it is told ESTALE.
    private func staleIfGone<R>(_ body: () throws(DataProtectionError) -> R) throws(Errno) -> R {
        do throws(Errno) { return try refusing(body) } catch {
            throw error == .noSuchFileOrDirectory ? .staleNFSFileHandle : error
        }
    }

    private func require(_ node: FuseNode, is status: stat) throws(Errno) {
        guard nodes.withLock({ $0.table.identity(of: node) }) == NodeTable.Identity(status) else {
            throw .staleNFSFileHandle
        }
    }
}

extension NodeTable.Identity {
    init(_ status: stat) { self.init(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)) }
}
