import CMemoryFiles
import Glibc
import SystemPackage

/// What another process must know of a connection to drop its pages when the server is dead: the requests that were taken and not answered, and the
/// nodes that may have pages. It is in memory that both processes have, without names and bytes of files.
///
/// The server may be killed between any two words.
package final class ConnectionRecord: Sendable {
    /// How many threads can note their requests.
    static let threadCount = 64
    /// Nodes from this number on are not noted. Numbers are not used again, so a mount comes to them after as many files.
    private static let nodeLimit: UInt64 = 1 << 28
    /// The highest node; whether one was too high; a request of each thread. Then a bit for each node, from a page of its own on.
    private static let (highest, overflow, requests, nodes) = (0, 1, 2, 512)
    private static let byteCount = nodes * 8 + Int(nodeLimit / 8)

    /// A file in memory.
    package let descriptor: Int32
    nonisolated(unsafe) private let words: UnsafeMutablePointer<UInt64>

    /// - Throws: why there is no such memory.
    package convenience init() throws(Errno) {
        let file = protectfs_memory_file()
        guard file >= 0 else { throw Errno(rawValue: errno) }
        guard ftruncate(file, off_t(Self.byteCount)) == 0 else {
            let error = Errno(rawValue: errno)
            Glibc.close(file)
            throw error
        }
        try self.init(descriptor: file)
    }

    /// The same memory in another process.
    ///
    /// - Parameter descriptor: is closed when this goes.
    package init(descriptor: Int32) throws(Errno) {
        let start = mmap(nil, Self.byteCount, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        guard let start, start != MAP_FAILED else {
            let error = Errno(rawValue: errno)
            Glibc.close(descriptor)
            throw error
        }
        self.descriptor = descriptor
        words = start.assumingMemoryBound(to: UInt64.self)
    }

    deinit {
        munmap(words, Self.byteCount)
        Glibc.close(descriptor)
    }

    // MARK: the server's side

    /// A thread has taken a request.
    func takes(_ unique: UInt64, on thread: Int) { words[Self.requests + thread] = unique }

    /// It is answered.
    func answered(on thread: Int) { words[Self.requests + thread] = 0 }

    /// A node may have pages. Calls must not overlap with each other and with ``forget(_:)``.
    package func note(_ node: FuseNode) {
        guard node < Self.nodeLimit else {
            words[Self.overflow] = 1
            return
        }
        words[Self.highest] = max(words[Self.highest], node)
        words[Self.nodes + Int(node >> 6)] |= 1 << (node & 63)
    }

    /// The kernel has forgotten a node, and its pages.
    package func forget(_ node: FuseNode) {
        if node < Self.nodeLimit { words[Self.nodes + Int(node >> 6)] &= ~(1 << (node & 63)) }
    }

    // MARK: when the server is dead

    /// The requests that were taken and may wait for an answer.
    var openRequests: [UInt64] {
        (0..<Self.threadCount).map { words[Self.requests + $0] }.filter { $0 != 0 }
    }

    /// Whether all nodes are noted that may have pages.
    var hasAllNodes: Bool { words[Self.overflow] == 0 }

    func forEachNode(_ body: (FuseNode) -> Void) {
        for index in 0...Int(min(words[Self.highest], Self.nodeLimit - 1) >> 6) {
            var bits = words[Self.nodes + index]
            while bits != 0 {
                body(UInt64(index) << 6 + UInt64(bits.trailingZeroBitCount))
                bits &= bits - 1
            }
        }
    }
}
