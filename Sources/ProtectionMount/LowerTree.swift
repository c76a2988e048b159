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
    private let nodes: Mutex<NodeTable>
    /// Directories that were reached before. They stay those that they were, wherever they are moved.
    private let directories = Mutex<[FuseNode: LowerDirectory]>([:])
    private static let cachedDirectories = 256

    init(_ root: LowerDirectory) throws(DataProtectionError) {
        self.root = root
        nodes = Mutex(NodeTable(root: NodeTable.Identity(try root.status())))
    }

    /// Notes that the kernel is given this entry.
    func found(_ status: stat, as name: FilePath.Component, in parent: FuseNode) -> FuseNode {
        nodes.withLock { $0.found(NodeTable.Identity(status), as: name, in: parent) }
    }

    /// - Returns: the nodes that are no more.
    func forget(_ node: FuseNode, _ count: UInt64) -> [FuseNode] {
        let gone = nodes.withLock { $0.forget(node, count) }
        if !gone.isEmpty { directories.withLock { directories in for node in gone { directories[node] = nil } } }
        return gone
    }

    /// The directory that a node is.
    func directory(_ node: FuseNode) throws(Errno) -> LowerDirectory {
        if node == NodeTable.root { return root }
        if let known = directories.withLock({ $0[node] }) { return known }
        let (parent, name) = try place(of: node)
        let directory = try refusing { () throws(DataProtectionError) in try parent.directory(name, staying: false) }
        try require(node, is: try refusing { () throws(DataProtectionError) in try directory.status() })
        directories.withLock { directories in
            if directories.count >= Self.cachedDirectories { directories = [:] }
            directories[node] = directory
        }
        return directory
    }

    /// The directory that a node is in, and its name there.
    func place(of node: FuseNode) throws(Errno) -> (LowerDirectory, FilePath.Component) {
        guard let names = nodes.withLock({ $0.names(to: node) }), let name = names.last else {
            throw .staleNFSFileHandle
        }
        var directory = root
        for name in names.dropLast() {
            directory = try refusing { () throws(DataProtectionError) in try directory.directory(name, staying: false) }
        }
        return (directory, name)
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

    /// The regular file that a node is, opened for reading.
    func file(_ node: FuseNode) throws(Errno) -> LowerFile {
        let (directory, name) = try place(of: node)
        let file = try refusing { () throws(DataProtectionError) in
            try directory.file(name, flags: O_RDONLY, path: directory.path.appending(name))
        }
        try require(node, is: try refusing { () throws(DataProtectionError) in try file.status() })
        return file
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

/// The errno that a program gets: EIO for what is damaged, ENOKEY for what no key opens now.
func refusing<R>(_ body: () throws(DataProtectionError) -> R) throws(Errno) -> R {
    do throws(DataProtectionError) { return try body() } catch {
        throw error.errno == .badMessage ? .ioError : error.errno
    }
}
