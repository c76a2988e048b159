import FuseSession
import Glibc
import SystemPackage

/// Nothing is written to it.
extension MemoryFiles {
    func create(
        _ name: FilePath.Component, in directory: FuseNode, mode: mode_t, flags: Int32
    ) throws(Errno) -> (FuseEntry, FuseHandle) { throw .readOnlyFileSystem }
    func write(
        _ handle: UInt64, flags: Int32, of node: FuseNode, at offset: UInt64, _ bytes: UnsafeRawBufferPointer,
        _ way: FuseWrite
    ) throws(Errno) { throw .readOnlyFileSystem }
    func flush(_ handle: UInt64, of node: FuseNode) throws(Errno) {}
    func synchronize(_ handle: UInt64, of node: FuseNode) throws(Errno) {}
    func synchronizeDirectory(_ node: FuseNode) throws(Errno) {}
    func makeDirectory(
        _ name: FilePath.Component, in directory: FuseNode, mode: mode_t
    ) throws(Errno) -> FuseEntry { throw .readOnlyFileSystem }
    func makeNode(
        _ name: FilePath.Component, in directory: FuseNode, mode: mode_t
    ) throws(Errno) -> FuseEntry { throw .readOnlyFileSystem }
    func makeLink(
        _ name: FilePath.Component, in directory: FuseNode, to target: UnsafePointer<CChar>
    ) throws(Errno) -> FuseEntry { throw .readOnlyFileSystem }
    func link(
        _ node: FuseNode, as name: FilePath.Component, in directory: FuseNode
    ) throws(Errno) -> FuseEntry { throw .readOnlyFileSystem }
    func remove(_ name: FilePath.Component, in directory: FuseNode, isDirectory: Bool) throws(Errno) {
        throw .readOnlyFileSystem
    }
    func rename(
        _ name: FilePath.Component, in directory: FuseNode, to newName: FilePath.Component, in newDirectory: FuseNode,
        flags: UInt32
    ) throws(Errno) { throw .readOnlyFileSystem }
    func change(
        _ node: FuseNode, _ change: FuseChange, handle: UInt64?
    ) throws(Errno) -> FuseAttributes { throw .readOnlyFileSystem }
    func setAttribute(
        _ name: String, of node: FuseNode, to value: [UInt8], flags: Int32
    ) throws(Errno) { throw .readOnlyFileSystem }
    func removeAttribute(_ name: String, of node: FuseNode) throws(Errno) { throw .readOnlyFileSystem }
}
