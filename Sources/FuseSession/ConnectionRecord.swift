import CMemoryFiles
import Glibc
import Synchronization
import SystemPackage

/// What another process must know of a connection to go on with it when the server is dead, or at least to drop its pages: the kernel's first request,
/// those that were taken and not answered, marks of nodes, and logs of the file system's own. It is in memory that both processes have, without bytes
/// of files.
///
/// The server may be killed between any two words.
package final class ConnectionRecord: Sendable {
    /// How many threads can note their requests.
    static let threadCount = 64
    /// Nodes from this number on are not noted. Numbers are not used again, so a mount comes to them after as many files.
    private static let nodeLimit: UInt64 = 1 << 26

    /// Words of the first page.
    private enum Word {
        /// Which layout this is. A program that was replaced since may have another.
        static let layout = 0
        /// The highest node that is noted, and whether one was too high.
        static let (highest, overflow) = (1, 2)
        /// How many servers the connection has had, and when the last one began, by CLOCK_MONOTONIC.
        static let (servers, beginning) = (3, 4)
        /// Of each log which of two places is in force, and the ends of both, in bytes.
        static let logs = 5
        /// The length of the first request, and its bytes.
        static let (firstLength, first) = (14, 15)
        /// A request of each thread.
        static let requests = 64
    }
    private static let layout: UInt64 = 2
    private static let page = 4096
    private static let longestFirst = (Word.requests - Word.first) * 8
    /// A bit for each node.
    private static let bitsLength = Int(nodeLimit / 8)
    private static let logStart = page + Mark.allCases.count * bitsLength
    /// The longest log, in bytes. Only what is used takes memory.
    private static let logLength = 64 << 20
    private static let byteCount = logStart + 2 * Log.allCases.count * logLength

    /// A file in memory.
    package let descriptor: Int32
    nonisolated(unsafe) private let memory: UnsafeMutableRawPointer
    /// Held while a mark is changed.
    private let turn = Mutex(())

    /// - Throws: why there is no such memory.
    package convenience init() throws(Errno) {
        let file = protectfs_memory_file()
        guard file >= 0 else { throw Errno(rawValue: errno) }
        guard ftruncate(file, off_t(Self.byteCount)) == 0 else {
            let error = Errno(rawValue: errno)
            Glibc.close(file)
            throw error
        }
        try self.init(memory: file)
        words[Word.layout] = Self.layout
    }

    /// The same memory in another process.
    ///
    /// - Parameter descriptor: is closed when this goes.
    /// - Throws: why it cannot be used; `notSupported` for one that another version of this program has made.
    package convenience init(descriptor: Int32) throws(Errno) {
        try self.init(memory: descriptor)
        guard words[Word.layout] == Self.layout else { throw .notSupported }
    }

    private init(memory file: Int32) throws(Errno) {
        var status = stat()
        let isWhole = fstat(file, &status) == 0 && status.st_size == Self.byteCount
        let start = isWhole ? mmap(nil, Self.byteCount, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED
        guard let start, start != MAP_FAILED else {
            let error = isWhole ? Errno(rawValue: errno) : .notSupported
            Glibc.close(file)
            throw error
        }
        descriptor = file
        memory = start
    }

    deinit {
        munmap(memory, Self.byteCount)
        Glibc.close(descriptor)
    }

    private var words: UnsafeMutablePointer<UInt64> { memory.assumingMemoryBound(to: UInt64.self) }

    // MARK: servers

    /// A server begins.
    ///
    /// - Parameter time: by CLOCK_MONOTONIC, in nanoseconds.
    package func begins(at time: UInt64) {
        words[Word.beginning] = time
        words[Word.servers] += 1
    }

    /// How many servers the connection has had, with the one that has begun last.
    package var serverCount: UInt64 { words[Word.servers] }
    /// When that was.
    package var beginning: UInt64 { words[Word.beginning] }

    // MARK: requests

    /// The kernel's first request, with which each server begins; nil if there was none yet.
    var firstRequest: UnsafeRawBufferPointer? {
        let length = Int(words[Word.firstLength])
        guard (1...Self.longestFirst).contains(length) else { return nil }
        return UnsafeRawBufferPointer(start: memory + Word.first * 8, count: length)
    }

    func noteFirst(_ request: UnsafeRawBufferPointer) {
        guard request.count <= Self.longestFirst else { return }
        (memory + Word.first * 8).copyMemory(from: request.baseAddress!, byteCount: request.count)
        atomicMemoryFence(ordering: .releasing)
        words[Word.firstLength] = UInt64(request.count)
    }

    /// A thread has taken a request.
    func takes(_ unique: UInt64, on thread: Int) { words[Word.requests + thread] = unique }

    /// It is answered.
    func answered(on thread: Int) { words[Word.requests + thread] = 0 }

    /// The requests that were taken and may wait for an answer.
    var openRequests: [UInt64] {
        (0..<Self.threadCount).map { words[Word.requests + $0] }.filter { $0 != 0 }
    }

    /// They are answered.
    func forgetRequests() { for thread in 0..<Self.threadCount { answered(on: thread) } }

    // MARK: nodes

    /// What is noted of a node.
    package enum Mark: Int, CaseIterable, Sendable {
        /// It may have pages.
        case pages
        /// It has writes that were acknowledged and that a commit has not taken.
        case uncommitted
        /// Some of them are in no log.
        case unlogged
        /// A dead server has lost such a write.
        case lost
    }

    package func mark(_ node: FuseNode, _ mark: Mark) {
        guard node < Self.nodeLimit else {
            words[Word.overflow] = 1
            return
        }
        turn.withLock { _ in
            words[Word.highest] = max(words[Word.highest], node)
            bits(mark)[Int(node >> 6)] |= 1 << (node & 63)
        }
    }

    package func unmark(_ node: FuseNode, _ mark: Mark) {
        guard node < Self.nodeLimit else { return }
        turn.withLock { _ in bits(mark)[Int(node >> 6)] &= ~(1 << (node & 63)) }
    }

    package func has(_ mark: Mark, _ node: FuseNode) -> Bool {
        node >= Self.nodeLimit || bits(mark)[Int(node >> 6)] & 1 << (node & 63) != 0
    }

    /// The kernel has forgotten a node, and its pages.
    package func forget(_ node: FuseNode) { for mark in Mark.allCases { unmark(node, mark) } }

    private func bits(_ mark: Mark) -> UnsafeMutablePointer<UInt64> {
        (memory + Self.page + mark.rawValue * Self.bitsLength).assumingMemoryBound(to: UInt64.self)
    }

    /// Whether all nodes have their marks.
    package var hasAllNodes: Bool { words[Word.overflow] == 0 }

    /// Every node that has this mark.
    package func forEachNode(_ mark: Mark, _ body: (FuseNode) -> Void) {
        for index in 0...Int(min(words[Word.highest], Self.nodeLimit - 1) >> 6) {
            var left = bits(mark)[index]
            while left != 0 {
                body(UInt64(index) << 6 + UInt64(left.trailingZeroBitCount))
                left &= left - 1
            }
        }
    }

    // MARK: logs

    /// What the file system needs to go on, in the order in which it came about.
    package enum Log: Int, CaseIterable, Sendable {
        /// Its nodes.
        case nodes
        /// Sealed writes that no commit has taken.
        case writes
        /// Classes of files that have lost their names.
        case classes

        fileprivate var place: Int { Word.logs + 3 * rawValue }
    }

    /// The bytes of a log; nil if it was given up.
    package func bytes(of log: Log) -> UnsafeRawBufferPointer? {
        let number = Int(words[log.place] & 1)
        let end = words[log.place + 1 + number]
        guard end <= Self.logLength else { return nil }
        return UnsafeRawBufferPointer(start: start(of: log, number), count: Int(end))
    }

    private func start(of log: Log, _ number: Int) -> UnsafeMutableRawPointer {
        memory + Self.logStart + (2 * log.rawValue + number) * Self.logLength
    }

    /// Adds bytes behind a log. Calls for one log must not overlap.
    ///
    /// - Returns: the length of the log, in bytes; nil if it has no room for them.
    package func append(_ entry: [UInt8], to log: Log) -> Int? {
        let number = Int(words[log.place] & 1)
        let end = words[log.place + 1 + number]
        guard end <= Self.logLength, Int(end) + entry.count <= Self.logLength else { return nil }
        let place = start(of: log, number) + Int(end)
        entry.withUnsafeBytes { if let bytes = $0.baseAddress { place.copyMemory(from: bytes, byteCount: $0.count) } }
        // The entry is there before it counts.
        atomicMemoryFence(ordering: .releasing)
        words[log.place + 1 + number] = end + UInt64(entry.count)
        return Int(end) + entry.count
    }

    /// A log lacks something, and is of no use any more.
    package func giveUp(_ log: Log) { words[log.place + 1 + Int(words[log.place] & 1)] = .max }

    /// Puts other bytes in the place of a log, at once. Calls for one log must not overlap.
    ///
    /// - Returns: false if it has no room for them.
    package func replace(_ log: Log, by entries: [UInt8]) -> Bool {
        let (old, new) = (Int(words[log.place] & 1), Int(words[log.place] & 1 ^ 1))
        guard entries.count <= Self.logLength else { return false }
        entries.withUnsafeBytes { bytes in
            if let start = bytes.baseAddress {
                self.start(of: log, new).copyMemory(from: start, byteCount: bytes.count)
            }
        }
        words[log.place + 1 + new] = UInt64(entries.count)
        // All of it is there before it is in force.
        atomicMemoryFence(ordering: .releasing)
        words[log.place] = UInt64(new)
        // Gives the memory back.
        _ = madvise(start(of: log, old), Self.logLength, MADV_REMOVE)
        return true
    }
}
