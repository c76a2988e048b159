import Glibc
import SystemPackage

/// What the kernel calls a file or directory of a mount; 1 is where the mount begins.
package typealias FuseNode = UInt64

/// A file system that answers the kernel's requests. Any number of threads call it at once.
///
/// Every error that a function throws is the errno that the calling program gets. A read-only mount is never asked to change anything.
package protocol FuseFileSystem: AnyObject, Sendable {
    /// The file of that name in a directory. The kernel keeps the node until ``forget(_:_:)``.
    func lookUp(_ name: FilePath.Component, in directory: FuseNode) throws(Errno) -> FuseEntry
    /// The kernel drops `count` of the entries that it was given for a node. It may keep others.
    func forget(_ node: FuseNode, _ count: UInt64)
    /// stat(2).
    func attributes(of node: FuseNode) throws(Errno) -> FuseAttributes
    /// readlink(2).
    func target(ofLink node: FuseNode) throws(Errno) -> [UInt8]
    /// open(2), with its flags; O_CREAT and O_EXCL are not among them.
    func open(_ node: FuseNode, flags: Int32) throws(Errno) -> FuseHandle
    /// pread(2) of up to `count` bytes. Calls `reply` once; the bytes are the kernel's when it returns.
    ///
    /// - Parameter flags: of open(2), without those that only opening needs. The handle may be that of a server which is dead.
    func read(
        _ handle: UInt64, flags: Int32, of node: FuseNode, from offset: UInt64, count: Int,
        reply: (UnsafeRawBufferPointer) -> Void
    ) throws(Errno)
    /// The last descriptor and mapping of an ``open(_:flags:)`` has gone.
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

    /// open(2) of a file that is created, with O_CREAT and perhaps O_EXCL.
    ///
    /// - Parameter mode: permission bits; the umask of the program has been applied, here and below.
    func create(
        _ name: FilePath.Component, in directory: FuseNode, mode: mode_t, flags: Int32
    ) throws(Errno) -> (FuseEntry, FuseHandle)
    /// pwrite(2) of all these bytes.
    ///
    /// - Parameters:
    ///   - flags: as for ``read(_:flags:of:from:count:reply:)``.
    ///   - way: where they go.
    func write(
        _ handle: UInt64, flags: Int32, of node: FuseNode, at offset: UInt64, _ bytes: UnsafeRawBufferPointer,
        _ way: FuseWrite
    ) throws(Errno)
    /// close(2) of one descriptor of a handle: the last moment at which the program hears of an error.
    func flush(_ handle: UInt64, of node: FuseNode) throws(Errno)
    /// fsync(2), fdatasync(2).
    func synchronize(_ handle: UInt64, of node: FuseNode) throws(Errno)
    /// The same of a directory.
    func synchronizeDirectory(_ node: FuseNode) throws(Errno)
    /// mkdir(2).
    func makeDirectory(_ name: FilePath.Component, in directory: FuseNode, mode: mode_t) throws(Errno) -> FuseEntry
    /// mknod(2).
    ///
    /// - Parameter mode: with the kind of file.
    func makeNode(_ name: FilePath.Component, in directory: FuseNode, mode: mode_t) throws(Errno) -> FuseEntry
    /// symlink(2).
    ///
    /// - Parameter target: ends with a zero byte.
    func makeLink(
        _ name: FilePath.Component, in directory: FuseNode, to target: UnsafePointer<CChar>
    ) throws(Errno) -> FuseEntry
    /// link(2).
    func link(_ node: FuseNode, as name: FilePath.Component, in directory: FuseNode) throws(Errno) -> FuseEntry
    /// unlink(2), rmdir(2).
    func remove(_ name: FilePath.Component, in directory: FuseNode, isDirectory: Bool) throws(Errno)
    /// renameat2(2), with its flags.
    func rename(
        _ name: FilePath.Component, in directory: FuseNode, to newName: FilePath.Component, in newDirectory: FuseNode,
        flags: UInt32
    ) throws(Errno)
    /// chmod(2), chown(2), truncate(2), utimensat(2), and those of open files.
    ///
    /// - Parameter handle: of an open file, for ftruncate(2).
    func change(_ node: FuseNode, _ change: FuseChange, handle: UInt64?) throws(Errno) -> FuseAttributes
    /// setxattr(2).
    ///
    /// - Parameter flags: XATTR_CREATE, XATTR_REPLACE or neither.
    func setAttribute(_ name: String, of node: FuseNode, to value: [UInt8], flags: Int32) throws(Errno)
    /// removexattr(2).
    func removeAttribute(_ name: String, of node: FuseNode) throws(Errno)
}

/// In which way a program writes.
package enum FuseWrite: Sendable {
    /// At the offset.
    case there
    /// Behind the last byte, wherever that is: O_APPEND is set, which fcntl(2) can change while a file is open.
    case atEnd
    /// At the offset. The program has stored it in a mapping, and has perhaps closed the file long ago.
    case page
}

/// What ``FuseFileSystem/open(_:flags:)`` gives the kernel.
package struct FuseHandle {
    package let number: UInt64
    /// Whether it is open for writing. The kernel then reads and writes past its cache, and calls ``FuseFileSystem/flush(_:of:)``. Its pages are
    /// those of shared mappings, which kernels older than 6.6 refuse (ENODEV).
    package let isWriting: Bool

    package init(_ number: UInt64, isWriting: Bool) { (self.number, self.isWriting) = (number, isWriting) }
}

/// New attributes of a file; nil stays as it is.
package struct FuseChange {
    package enum Time {
        case now
        case at(timespec)
    }

    package var mode: mode_t?
    package var owner: uid_t?
    package var group: gid_t?
    /// In bytes.
    package var size: UInt64?
    package var accessed: Time?
    package var modified: Time?

    package init() {}
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
