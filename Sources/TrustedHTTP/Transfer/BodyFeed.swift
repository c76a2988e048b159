import Glibc
import ProtectionKeys

/// Reads what is sent ahead, on a thread of its own: a slow disk holds up its own transfer, and no other one of the engine.
final class BodyFeed: @unchecked Sendable {  // what both threads use is under `monitor`
    /// What there is for the engine.
    enum Given {
        /// So many bytes were copied; none: that was the end.
        case bytes(Int)
        /// The engine is woken up when there is more.
        case notYet
        case failed(any Error)
    }

    private let body: any HTTPBody
    private let wakeEngine: @Sendable () -> Void
    private let monitor = Monitor()
    private let ring: UnsafeMutableRawBufferPointer
    private var (first, count) = (0, 0)
    /// Where the next byte is read, and how often somebody has begun somewhere else.
    private var (offset, rewinds) = (UInt64(0), 0)
    private var (hasEnded, isEngineWaiting, isAtEnd) = (false, false, false)
    private var failure: (any Error)?

    /// In bytes: twice what libcurl takes at once.
    private static let capacity = 1 << 20

    init(_ body: any HTTPBody, wakeEngine: @escaping @Sendable () -> Void) {
        (self.body, self.wakeEngine) = (body, wakeEngine)
        ring = .allocate(byteCount: max(1, Int(clamping: min(UInt64(Self.capacity), body.length))), alignment: 64)
    }

    deinit {
        SecretBytes.wipe(ring)  // it may be a part of a file that is locked by now
        ring.deallocate()
    }

    /// - Returns: whether there is a thread.
    func start() -> Bool { DetachedThread.start { [self] in run() } }

    // MARK: the engine's side

    /// Copies the next bytes, or says why not.
    func give(into buffer: UnsafeMutableRawBufferPointer) -> Given {
        monitor.lock()
        defer { monitor.unlock() }
        if count == 0, let failure { return .failed(failure) }
        if count == 0, isAtEnd { return .bytes(0) }
        guard count > 0 else {
            isEngineWaiting = true
            return .notYet
        }
        let given = min(buffer.count, count, ring.count - first)
        memcpy(buffer.baseAddress!, ring.baseAddress! + first, given)
        (first, count) = ((first + given) % ring.count, count - given)
        monitor.signal()
        return .bytes(given)
    }

    /// What comes next begins there.
    func rewind(to offset: UInt64) {
        monitor.lock()
        (self.offset, rewinds, first, count, isAtEnd) = (offset, rewinds + 1, 0, 0, false)
        monitor.signal()
        monitor.unlock()
    }

    /// Nothing more is needed.
    func end() {
        monitor.lock()
        hasEnded = true
        monitor.signal()
        monitor.unlock()
    }

    // MARK: the reader's side

    private func run() {
        monitor.lock()
        defer { monitor.unlock() }
        while true {
            while !hasEnded, count == ring.count || isAtEnd { monitor.wait() }
            if hasEnded { return }
            let (now, start, from) = (rewinds, (first + count) % ring.count, offset)
            let room = min(ring.count - count, ring.count - start)
            let wanted = Int(clamping: min(UInt64(room), body.length - min(body.length, from)))
            monitor.unlock()
            // Nobody else touches this part of the ring, not even after a rewind: there is one reader.
            let result = Result {
                wanted == 0
                    ? 0
                    : try body.read(
                        into: UnsafeMutableRawBufferPointer(rebasing: ring[start..<start + wanted]), at: from)
            }
            monitor.lock()
            guard now == rewinds else { continue }
            take(result)
        }
    }

    private func take(_ result: Result<Int, any Error>) {
        switch result {
        case .success(let read):
            (count, offset) = (count + read, offset + UInt64(read))
            isAtEnd = read == 0
            // The server would wait for the rest, and we for the server.
            if isAtEnd, offset < body.length {
                failure = HTTPError.malformedRequest("its body is shorter than it said")
            }
        case .failure(let error): (failure, isAtEnd) = (error, true)
        }
        guard isEngineWaiting else { return }
        isEngineWaiting = false
        wakeEngine()
    }
}
