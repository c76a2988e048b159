import CEventFiles
import Glibc
import SystemPackage

/// What a thread in poll(2) is woken by, apart from files: somebody who rings, and a time that has come.
package final class ListenerDoorbell: Sendable {
    /// eventfd(2), to wait for.
    package let bell: Int32
    /// timerfd_create(2) of CLOCK_BOOTTIME, which goes on while the machine sleeps; to wait for.
    package let timer: Int32

    /// - Throws: `EMFILE`, `ENFILE`, `ENOMEM`.
    package init() throws(Errno) {
        let bell = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard bell >= 0 else { throw Errno(rawValue: errno) }
        let timer = timerfd_create(CLOCK_BOOTTIME, Int32(TFD_CLOEXEC | TFD_NONBLOCK))
        guard timer >= 0 else {
            let error = errno
            close(bell)
            throw Errno(rawValue: error)
        }
        (self.bell, self.timer) = (bell, timer)
    }

    deinit {
        close(bell)
        close(timer)
    }

    /// Wakes the thread.
    package func ring() { eventfd_write(bell, 1) }

    /// Waits for the bell, but no longer than that; it rings on.
    package func pause(milliseconds: Int32) {
        var bell = pollfd(fd: bell, events: Int16(POLLIN), revents: 0)
        poll(&bell, 1, milliseconds)
    }

    /// Hears the bell and the timer, so that they can wake again.
    package func hear() {
        for descriptor in [bell, timer] {
            var count: UInt64 = 0
            _ = read(descriptor, &count, 8)
        }
    }

    /// Sets the timer, or stops it.
    ///
    /// - Parameter time: CLOCK_BOOTTIME in nanoseconds; nil: never.
    package func setTimer(_ time: UInt64?) {
        var setting = itimerspec()
        if let time {
            let nanoseconds = max(time, 1)  // 0 would be: never
            setting.it_value.tv_sec = time_t(clamping: nanoseconds / 1_000_000_000)
            setting.it_value.tv_nsec = Int(nanoseconds % 1_000_000_000)
        }
        timerfd_settime(timer, Int32(TFD_TIMER_ABSTIME), &setting, nil)
    }
}
