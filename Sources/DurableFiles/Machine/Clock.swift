import Glibc
import Synchronization
import SystemPackage

/// Time as the kernel counts it.
package enum Clock {
    /// CLOCK_BOOTTIME in nanoseconds: goes on while the machine sleeps.
    package static func bootTime() -> UInt64 { nanoseconds(CLOCK_BOOTTIME) }

    /// Seconds since 1970.
    package static func now() -> UInt64 { wallTime() / 1_000_000_000 }

    /// CLOCK_REALTIME in nanoseconds: since 1970.
    package static func wallTime() -> UInt64 { nanoseconds(CLOCK_REALTIME) }

    /// Now as RFC 3339 writes it in UTC: `2026-11-20T18:00:00Z`.
    package static func nowInUTC() -> String {
        var time = time_t(clamping: now())
        var fields = tm()
        gmtime_r(&time, &fields)
        var text = [CChar](repeating: 0, count: 32)
        let count = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &fields)
        return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// CLOCK_MONOTONIC in nanoseconds.
    package static func monotonic() -> UInt64 {
        #if PROTECTFS_TESTING
            if let lead { return nanoseconds(CLOCK_MONOTONIC) + lead.next() }
        #endif
        return nanoseconds(CLOCK_MONOTONIC)
    }

    #if PROTECTFS_TESTING
        /// How far ``monotonic()`` is ahead of the kernel's for a test and the tasks that it begins: a second that passes at once.
        package final class Lead: Sendable {
            private let nanoseconds = Atomic<UInt64>(0)
            private let step: UInt64

            /// - Parameter step: in nanoseconds; so much further at each reading, so that who waits for a time soon reaches it.
            package init(step: UInt64 = 0) { self.step = step }

            package func move(by seconds: Double) { nanoseconds.add(UInt64(seconds * 1e9), ordering: .relaxed) }

            fileprivate func next() -> UInt64 { nanoseconds.add(step, ordering: .relaxed).newValue }
        }

        @TaskLocal package static var lead: Lead?
    #endif

    /// CLOCK_THREAD_CPUTIME_ID in nanoseconds: what this thread has worked.
    package static func ofThread() -> UInt64 { nanoseconds(CLOCK_THREAD_CPUTIME_ID) }

    /// What ``bootID()`` returns where nobody can tell which boot it is, for example in a container whose /proc has only processes.
    package static let unknownBoot = [UInt8](repeating: 0, count: 16)

    /// 16 bytes that name this boot, or ``unknownBoot``.
    package static func bootID() -> [UInt8] {
        let path: FilePath = "/proc/sys/kernel/random/boot_id"
        // Some containers put a file of their own there: systemd-nspawn(1). It says nothing about the machine.
        guard let file = try? LowerFile(path, flags: O_RDONLY), file.isOfProc,
            let text = try? file.bytes(at: 0, count: 36), text == (try? file.bytes(at: 0, count: 36))
        else { return unknownBoot }
        let digits = text.compactMap { Character(UnicodeScalar($0)).hexDigitValue }.map(UInt8.init)
        guard digits.count == 32 else { return unknownBoot }
        return (0..<16).map { digits[2 * $0] << 4 | digits[2 * $0 + 1] }
    }

    /// Whether something may be of this boot: not if both boots are known, and are different ones.
    package static func mayBeThisBoot(_ other: [UInt8]) -> Bool {
        let boot = bootID()
        return other == boot || other == unknownBoot || boot == unknownBoot
    }

    /// Whether ``bootTime()`` is that of the machine. In a time namespace it is another one: time_namespaces(7). So what one process has written
    /// down is no time for another.
    package static var isOfMachine: Bool {
        var status = stat()
        guard stat("/proc/self/ns/time", &status) == 0 else { return errno == ENOENT }  // this kernel has none
        return status.st_ino == initialTimeNamespace
    }

    /// `TIME_NS_INIT_INO` in linux/nsfs.h.
    private static let initialTimeNamespace: UInt64 = 0xEFFF_FFFA

    private static func nanoseconds(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

extension LowerFile {
    /// Whether it is a file of proc(5), and not one that was mounted over it.
    fileprivate var isOfProc: Bool {
        var (own, root) = (stat(), stat())
        return fstat(descriptor, &own) == 0 && stat("/proc", &root) == 0 && own.st_dev == root.st_dev
    }
}
