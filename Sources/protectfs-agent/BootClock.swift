import Glibc

/// CLOCK_BOOTTIME: since the machine started, its sleep included. The library's deadlines are of it too.
enum BootClock {
    static func now() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }
}
