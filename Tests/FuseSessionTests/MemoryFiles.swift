import Dispatch
import FuseSession
import Glibc
import Synchronization
import SystemPackage

/// A root with a file `data` and a link `link` to it. It counts what the kernel asks, and reads can be held.
final class MemoryFiles: FuseFileSystem {
    static let contents = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    static let data: FuseNode = 2
    static let link: FuseNode = 3

    private struct State {
        var lookups = 0
        var reads = 0
        var forgotten = 0
        var isRefusing = false
        var isHolding = false
        /// What happened in which order.
        var events: [String] = []
    }
    private let state = Mutex(State())
    /// A read is held.
    let isHeld = DispatchSemaphore(value: 0)
    /// Lets it go on.
    let goesOn = DispatchSemaphore(value: 0)

    var lookups: Int { state.withLock { $0.lookups } }
    var reads: Int { state.withLock { $0.reads } }
    var events: [String] { state.withLock { $0.events } }

    /// Holds reads: each signals ``isHeld`` and waits for ``goesOn``.
    func holdReads(_ isHolding: Bool = true) { state.withLock { $0.isHolding = isHolding } }

    /// Answers reads that begin from now on with ENOKEY.
    func refuseReads(_ isRefusing: Bool = true) { state.withLock { $0.isRefusing = isRefusing } }

    func note(_ event: String) { state.withLock { $0.events.append(event) } }

    // MARK: requests

    func lookUp(_ name: FilePath.Component, in directory: FuseNode) throws(Errno) -> FuseEntry {
        state.withLock { $0.lookups += 1 }
        switch name.string {
        case "data": return FuseEntry(Self.data, try attributes(of: Self.data))
        case "link": return FuseEntry(Self.link, try attributes(of: Self.link))
        default: throw .noSuchFileOrDirectory
        }
    }

    func forget(_ node: FuseNode, _ count: UInt64) { state.withLock { $0.forgotten += Int(count) } }

    func attributes(of node: FuseNode) throws(Errno) -> FuseAttributes {
        var status = stat()
        status.st_ino = ino_t(node)
        status.st_nlink = 1
        (status.st_uid, status.st_gid) = (getuid(), getgid())
        switch node {
        case 1: status.st_mode = S_IFDIR | 0o755
        case Self.data:
            status.st_mode = S_IFREG | 0o644
            status.st_size = Self.contents.count
        case Self.link:
            status.st_mode = S_IFLNK | 0o777
            status.st_size = 4
        default: throw .staleNFSFileHandle
        }
        return FuseAttributes(status, lifetime: 3600)
    }

    func target(ofLink node: FuseNode) throws(Errno) -> [UInt8] { Array("data".utf8) }

    func open(_ node: FuseNode, flags: Int32) throws(Errno) -> FuseHandle { FuseHandle(9, isWriting: false) }

    func read(
        _ handle: UInt64, flags: Int32, of node: FuseNode, from offset: UInt64, count: Int,
        reply: (UnsafeRawBufferPointer) -> Void
    ) throws(Errno) {
        let (isRefusing, isHolding) = state.withLock { state in
            state.reads += 1
            return (state.isRefusing, state.isHolding)
        }
        if isRefusing { throw Errno(rawValue: ENOKEY) }
        if isHolding {
            isHeld.signal()
            goesOn.wait()
        }
        let start = min(Int(offset), Self.contents.count)
        note("reply")
        Self.contents[start..<min(start + count, Self.contents.count)].withUnsafeBytes { reply($0) }
    }

    func release(_ handle: UInt64, of node: FuseNode) { note("release \(handle)") }

    func openDirectory(_ node: FuseNode) throws(Errno) -> UInt64 { 0 }

    func list(
        _ handle: UInt64, of node: FuseNode, from first: Int, take: (FilePath.Component, FuseEntry) -> Bool
    ) throws(Errno) {
        for name in (["data", "link"] as [FilePath.Component]).dropFirst(first) {
            guard take(name, try lookUp(name, in: node)) else { return }
        }
    }

    func releaseDirectory(_ handle: UInt64) {}

    func statistics() throws(Errno) -> statvfs {
        var statistics = statvfs()
        (statistics.f_bsize, statistics.f_frsize, statistics.f_blocks, statistics.f_namemax) = (4096, 4096, 1234, 255)
        return statistics
    }

    func attribute(_ name: String, of node: FuseNode) throws(Errno) -> [UInt8] { throw .noData }

    func attributeNames(of node: FuseNode) throws(Errno) -> [UInt8] { [] }
}
