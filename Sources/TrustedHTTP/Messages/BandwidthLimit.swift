import Glibc
import Synchronization

/// Bytes per second that requests share, of one client or of several: each piece waits until there is room for it, and counts.
///
/// libcurl's own limit is of one transfer, and lets megabytes through before it looks for the first time.
public final class BandwidthLimit: Sendable {
    /// The rate that all transfers of the limit have together.
    public let bytesPerSecond: UInt64
    private let bucket: Mutex<BandwidthBucket>

    /// A limit that any number of transfers share.
    public init(bytesPerSecond: UInt64) {
        self.bytesPerSecond = bytesPerSecond
        bucket = Mutex(BandwidthBucket(bytesPerSecond: bytesPerSecond))
    }

    /// How long the next piece has to wait, in nanoseconds; nil: not at all.
    func wait(at now: UInt64) -> UInt64? { bucket.withLock { $0.wait(at: now) } }
    /// A piece has passed.
    func count(_ bytes: Int, at now: UInt64) { bucket.withLock { $0.count(bytes, at: now) } }
}

/// A bucket that fills steadily and holds no more than a tenth of a second's worth. Arithmetic only, no clock.
///
/// A piece passes while anything is in it, and may leave it owing, so that pieces larger than the bucket pass too. In `t` seconds
/// not more than `rate · (t + 0.1)` bytes and one piece pass.
struct BandwidthBucket {
    /// In bytes per second.
    private let rate: Double
    /// In bytes; below zero: what has passed ahead of its time.
    private var level: Double
    /// When it was at ``level``, in nanoseconds; nil: nothing has passed yet.
    private var time: UInt64?

    private var capacity: Double { rate / 10 }

    init(bytesPerSecond: UInt64) {
        rate = Double(max(1, bytesPerSecond))
        level = rate / 10
    }

    /// In nanoseconds until a quarter of it is full, for one piece at a time would wake somebody up too often; nil: a piece passes.
    func wait(at now: UInt64) -> UInt64? {
        let level = level(at: now)
        return level > 0 ? nil : UInt64(((capacity / 4 - level) / rate * 1e9).rounded(.up))
    }

    mutating func count(_ bytes: Int, at now: UInt64) {
        (level, time) = (level(at: now) - Double(bytes), max(now, time ?? now))
    }

    private func level(at now: UInt64) -> Double {
        guard let time, now > time else { return level }
        return min(capacity, level + rate * Double(now - time) / 1e9)
    }
}

/// All limits of one transfer. Used by the engine's thread.
struct Pace {
    private let limits: [BandwidthLimit]
    /// When a paused transfer goes on, in nanoseconds of the monotonic clock.
    private(set) var pausedUntil: UInt64?

    init(_ request: HTTPRequest) {
        limits = request.sharedLimits + (request.bandwidthLimit.map { [BandwidthLimit(bytesPerSecond: $0)] } ?? [])
    }

    /// Whether the next piece passes now, in whichever direction; else ``pausedUntil`` says when to ask again.
    mutating func allows() -> Bool {
        guard !limits.isEmpty else { return true }
        let now = Self.now()
        guard let wait = limits.compactMap({ $0.wait(at: now) }).max() else { return true }
        pausedUntil = now + wait
        return false
    }

    mutating func resume() { pausedUntil = nil }

    func count(_ bytes: Int) {
        guard !limits.isEmpty else { return }
        let now = Self.now()
        for limit in limits { limit.count(bytes, at: now) }
    }

    static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
