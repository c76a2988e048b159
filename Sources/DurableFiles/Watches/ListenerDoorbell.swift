import CEventFiles
import Glibc
import SystemPackage

/// What a thread in poll(2) is woken by, apart from files: somebody who rings, and a time that has come.
final class ListenerDoorbell: Sendable {
    /// eventfd(2), to wait for; -1 where this process may have no more descriptors.
    let bell: Int32
    /// timerfd_create(2) of CLOCK_BOOTTIME, which goes on while the machine sleeps; to wait for,
    /// or -1.
    let timer: Int32

    init() {
        bell = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        timer = timerfd_create(CLOCK_BOOTTIME, Int32(TFD_CLOEXEC | TFD_NONBLOCK))
    }

    deinit { for descriptor in [bell, timer] where descriptor >= 0 { close(descriptor) } }

    /// Whether both are there. If not, the thread has to look by itself.
    var isWhole: Bool { bell >= 0 && timer >= 0 }

    /// Wakes the thread.
    func ring() { eventfd_write(bell, 1) }

    /// Waits for the bell, but no longer than that; it rings on.
    func pause(milliseconds: Int32) {
        var bell = pollfd(fd: bell, events: Int16(POLLIN), revents: 0)
        poll(&bell, 1, milliseconds)
    }

    /// Hears the bell and the timer, so that they can wake again.
    func hear() {
        for descriptor in [bell, timer] {
            var count: UInt64 = 0
            _ = read(descriptor, &count, 8)
        }
    }

    /// Sets the timer, or stops it.
    ///
    /// - Parameter time: CLOCK_BOOTTIME in nanoseconds; nil: never.
    func setTimer(_ time: UInt64?) {
        var setting = itimerspec()
        if let time {
            let nanoseconds = max(time, 1)  // 0 would be: never
            setting.it_value.tv_sec = time_t(clamping: nanoseconds / 1_000_000_000)
            setting.it_value.tv_nsec = Int(nanoseconds % 1_000_000_000)
        }
        timerfd_settime(timer, Int32(TFD_TIMER_ABSTIME), &setting, nil)
    }
}
