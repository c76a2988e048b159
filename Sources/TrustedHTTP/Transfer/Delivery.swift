import Glibc

/// Hands a response to its receiver on a thread of its own, so that what the receiver does overlaps with the network.
///
/// Between the two lies a ring of bytes. When it is full the engine pauses the transfer, which in the end stops the server.
final class Delivery: @unchecked Sendable {  // what both threads use is under `monitor`
    private let receiver: any HTTPReceiver
    private let response: HTTPResponse
    /// There is room again after ``offer(_:)`` has said that there is none; or the receiver has thrown.
    private let wakeEngine: @Sendable () -> Void
    private let monitor = Monitor()
    private let ring: UnsafeMutableRawBufferPointer
    private var (first, count) = (0, 0)
    private var (hasEnded, isAborted, isFull) = (false, false, false)
    private var isReceiverIdle = false
    private var failure: (any Error)?

    /// In bytes; a larger ring did not make anything faster.
    static let capacity = 4 << 20
    /// What the receiver gets at once, at most.
    private static let piece = 1 << 20

    /// - Parameter expected: the length of the body in bytes, if it is known.
    init(
        to receiver: any HTTPReceiver, _ response: HTTPResponse, expected: UInt64?,
        wakeEngine: @escaping @Sendable () -> Void
    ) {
        (self.receiver, self.response, self.wakeEngine) = (receiver, response, wakeEngine)
        // Not less than what libcurl hands over at once, or it would never fit.
        let capacity = min(Self.capacity, max(LibCurl.largestPiece, Int(clamping: expected ?? .max)))
        ring = .allocate(byteCount: capacity, alignment: 4096)
    }

    deinit { ring.deallocate() }

    /// Begins; `whenDone` is called on the delivery's thread when everything was received or the receiver has thrown.
    ///
    /// - Returns: whether there is a thread.
    func start(whenDone: @escaping @Sendable ((any Error)?) -> Void) -> Bool {
        DetachedThread.start { [self] in
            run()
            whenDone(failure)
        }
    }

    // MARK: the engine's side

    /// Takes all of the bytes, or none of them.
    func offer(_ bytes: UnsafeRawBufferPointer) -> Bool {
        monitor.lock()
        defer { monitor.unlock() }
        guard !isAborted, !bytes.isEmpty else { return true }
        guard bytes.count <= ring.count - count else {
            isFull = true
            if isReceiverIdle { monitor.signal() }
            return false
        }
        let start = (first + count) % ring.count
        let untilEnd = min(bytes.count, ring.count - start)
        memcpy(ring.baseAddress! + start, bytes.baseAddress!, untilEnd)
        if untilEnd < bytes.count { memcpy(ring.baseAddress!, bytes.baseAddress! + untilEnd, bytes.count - untilEnd) }
        count += bytes.count
        return true
    }

    /// What was offered should be received now. Once for many offers: waking a thread up costs more than some of them.
    func flush() {
        monitor.lock()
        if isReceiverIdle, count > 0 { monitor.signal() }
        monitor.unlock()
    }

    /// Everything was offered.
    func end() {
        monitor.lock()
        hasEnded = true
        monitor.signal()
        monitor.unlock()
    }

    /// Nothing more is received than what the receiver has in its hands.
    func abort() {
        monitor.lock()
        isAborted = true
        monitor.signal()
        monitor.unlock()
    }

    /// Whether the receiver has thrown.
    var hasFailed: Bool {
        monitor.lock()
        defer { monitor.unlock() }
        return failure != nil
    }

    // MARK: the receiver's side

    private func run() {
        do {
            try receiver.begin(response)
            while let bytes = next() {
                try receiver.receive(bytes)
                free(bytes.count)
            }
        } catch {
            monitor.lock()
            (failure, isAborted) = (error, true)
            monitor.unlock()
            wakeEngine()
        }
    }

    /// Waits for bytes; nil at the end.
    private func next() -> UnsafeRawBufferPointer? {
        monitor.lock()
        defer { monitor.unlock() }
        while count == 0, !hasEnded, !isAborted {
            isReceiverIdle = true
            monitor.wait()
            isReceiverIdle = false
        }
        guard count > 0, !isAborted else { return nil }
        return UnsafeRawBufferPointer(
            rebasing: UnsafeRawBufferPointer(ring)[first..<min(first + min(count, Self.piece), ring.count)])
    }

    private func free(_ received: Int) {
        monitor.lock()
        first = (first + received) % ring.count
        count -= received
        let hasRoom = isFull && ring.count - count >= ring.count / 2
        if hasRoom { isFull = false }
        monitor.unlock()
        if hasRoom { wakeEngine() }
    }
}
