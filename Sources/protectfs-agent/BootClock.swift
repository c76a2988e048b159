import Glibc

/// CLOCK_BOOTTIME: since the machine started, its sleep included. The library's deadlines are of it too.
enum BootClock {
    static func now() -> Duration { time(of: CLOCK_BOOTTIME) }

    /// When a second of the calendar began, as its clock is set now: nothing that happened in it was earlier. Not in the future.
    static func time(ofSecond second: UInt64) -> Duration {
        now() - max(.zero, time(of: CLOCK_REALTIME) - .seconds(Int64(clamping: second)))
    }

    private static func time(of clock: clockid_t) -> Duration {
        var time = timespec()
        clock_gettime(clock, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
