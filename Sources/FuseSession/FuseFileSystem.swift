import Glibc
import SystemPackage

/// What the kernel calls a file or directory of a mount. ``FuseNode/root`` is where the mount begins.
package typealias FuseNode = UInt64

/// A file system that answers the kernel's requests. Any number of threads call it at once.
///
/// Nothing is written through it: the kernel refuses that with EROFS and asks nobody. Every error that a function throws is the errno that
/// the calling program gets.
package protocol FuseFileSystem: AnyObject, Sendable {
    /// The file of that name in a directory. The kernel keeps the node until ``forget(_:_:)``.
    func lookUp(_ name: FilePath.Component, in directory: FuseNode) throws(Errno) -> FuseEntry
    /// The kernel drops `count` of the entries that it was given for a node. It may keep others.
    func forget(_ node: FuseNode, _ count: UInt64)
    /// stat(2).
    func attributes(of node: FuseNode) throws(Errno) -> FuseAttributes
    /// readlink(2).
    func target(ofLink node: FuseNode) throws(Errno) -> [UInt8]
    /// open(2). The result is the handle of ``read(_:_:from:count:reply:)``.
    func open(_ node: FuseNode) throws(Errno) -> UInt64
    /// pread(2) of up to `count` bytes. Calls `reply` once; the bytes are the kernel's when it returns.
    func read(
        _ handle: UInt64, of node: FuseNode, from offset: UInt64, count: Int, reply: (UnsafeRawBufferPointer) -> Void
    ) throws(Errno)
    /// The last descriptor and mapping of an ``open(_:)`` has gone.
    func release(_ handle: UInt64, of node: FuseNode)
    /// opendir(3).
    func openDirectory(_ node: FuseNode) throws(Errno) -> UInt64
    /// Entries from number `first` on, until `take` returns false: it had no room, and the entry is not given out.
    func list(
        _ handle: UInt64, of node: FuseNode, from first: Int, take: (FilePath.Component, FuseEntry) -> Bool
    ) throws(Errno)
    /// closedir(3).
    func releaseDirectory(_ handle: UInt64)
    /// statvfs(3).
    func statistics() throws(Errno) -> statvfs
    /// getxattr(2).
    func attribute(_ name: String, of node: FuseNode) throws(Errno) -> [UInt8]
    /// listxattr(2): names, each with a zero byte behind it.
    func attributeNames(of node: FuseNode) throws(Errno) -> [UInt8]
}

/// What stat(2) says, and for how long the kernel may believe it.
package struct FuseAttributes {
    package let status: stat
    /// In seconds.
    package let lifetime: Double

    package init(_ status: stat, lifetime: Double) {
        self.status = status
        self.lifetime = lifetime
    }
}

/// A name that leads to a node.
package struct FuseEntry {
    package let node: FuseNode
    package let attributes: FuseAttributes

    package init(_ node: FuseNode, _ attributes: FuseAttributes) {
        self.node = node
        self.attributes = attributes
    }
}
