import Glibc
import POSIXThreads
import Synchronization
import SystemPackage

extension LowerFile {
    /// Takes flock(2) of the file exclusively, and waits in the kernel's queue for those who have it.
    ///
    /// A process that asks again and again (LOCK_NB) can be starved by others that block in flock(2): the kernel serves those in order. So this
    /// blocks too, on a thread of its own, because nothing else ends a wait. It costs that thread only where the flock is not free.
    /// - Parameter end: when to give up, in nanoseconds of CLOCK_MONOTONIC.
    /// Where the system makes no thread, it asks again and again all the same.
    /// - Returns: the open file that has the flock, this one or another one of the same file; nil if somebody kept it until `end`.
    /// - Throws: `system`, for example where the file system has no flock(2).
    package func flocked(until end: UInt64) throws(DataProtectionError) -> LowerFile? {
        if try takesFlock() { return self }
        if let waiter = try FlockWaiter.waiting(for: self) { return try waiter.wait(until: end) }
        while Clock.monotonic() < end {
            usleep(1_000)
            if try takesFlock() { return self }
        }
        return nil
    }

    /// Takes flock(2) if nobody has it.
    private func takesFlock() throws(DataProtectionError) -> Bool {
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return true }
        let error = Errno(rawValue: errno)
        guard error == .wouldBlock else { throw .system(path, operation: "flock", error) }
        return false
    }

    /// Gives flock(2) back at once. Closing is not enough: a child between fork(2) and exec(2) has the open file too.
    package func giveBackFlock() { _ = flock(descriptor, LOCK_UN) }

    /// The processes that hold flock(2) of this file exclusively, as they are numbered here.
    ///
    /// Those of other PID namespaces and of other machines are not listed, nor any where the file system numbers its devices otherwise than
    /// stat(2) does (btrfs). proc_locks(5).
    package func flockHolders() -> [pid_t] {
        guard let status = try? status(), let text = try? LowerFile("/proc/locks", flags: O_RDONLY).text() else {
            return []
        }
        let device = UInt64(status.st_dev)
        let major = device >> 8 & 0xFFF | device >> 32 & ~0xFFF
        let minor = device & 0xFF | device >> 12 & ~0xFF
        func digits(_ number: UInt64) -> String { (number < 16 ? "0" : "") + String(number, radix: 16) }
        let file = "\(digits(major)):\(digits(minor)):\(status.st_ino)"
        return text.split(separator: "\n").compactMap { line in
            // number: kind advisory access process device:inode start end; a waiting process has an arrow behind the number.
            let fields = line.split(separator: " ")
            guard fields.count > 5, fields[1] == "FLOCK", fields[3] == "WRITE", fields[5] == file else { return nil }
            // A process that has ended has left the open file to a child, which the table does not name.
            guard let process = pid_t(fields[4]), process > 0, kill(process, 0) == 0 || errno == EPERM else {
                return nil
            }
            return process
        }
    }
}

/// A thread that waits in flock(2) for as long as that takes.
///
/// If its caller has given up, it gives the flock back at once when it gets it, and ends. Until then the next caller of this process that wants
/// the same file, opened for the same, takes it over, with its place in the queue. So a process has one such thread for a file, however often it
/// tries; more only if several of its threads want the file at the same time.
private final class FlockWaiter: @unchecked Sendable {  // `state` is used under the lock of `abandoned` only
    private enum State {
        case wanted
        /// Its caller has given up, and nobody else wants it.
        case abandoned
        /// It has the flock; or the errno of flock(2).
        case ended(Errno?)
    }

    /// Those in the state of that name, each as long as its thread waits.
    private static let abandoned = Mutex<[FlockWaiter]>([])

    private let file: LowerFile
    private let device: dev_t
    private let inode: ino_t
    /// Whether the file is open for reading, for writing, or for both: as in fcntl(2), F_GETFL.
    private let access: Int32
    private let owner = getpid()
    private var state = State.wanted
    private let ended = TimedSemaphore()

    /// One that was abandoned, or a new one; nil if the system makes no thread.
    static func waiting(for file: LowerFile) throws(DataProtectionError) -> FlockWaiter? {
        let status = try file.status()
        let found = abandoned.withLock { abandoned -> FlockWaiter? in
            // A child of fork(2) has none of its parent's threads.
            abandoned.removeAll { $0.owner != getpid() }
            let wanted = Self.access(of: file)
            guard
                let index = abandoned.firstIndex(where: {
                    $0.device == status.st_dev && $0.inode == status.st_ino && $0.access == wanted
                })
            else { return nil }
            abandoned[index].state = .wanted
            return abandoned.remove(at: index)
        }
        if let found { return found }
        let waiter = FlockWaiter(file, status)
        do throws(POSIXThread.Refusal) {
            // The application's signals are for its own threads.
            try POSIXThread.detach(blocksSignals: true) { waiter.run() }
        } catch { return nil }
        return waiter
    }

    private init(_ file: LowerFile, _ status: stat) {
        (self.file, device, inode) = (file, status.st_dev, status.st_ino)
        access = Self.access(of: file)
    }

    private static func access(of file: LowerFile) -> Int32 { fcntl(file.descriptor, F_GETFL) & O_ACCMODE }

    /// The thread. It keeps the file open.
    private func run() {
        var failure: Errno?
        while flock(file.descriptor, LOCK_EX) != 0 {
            failure = Errno(rawValue: errno)
            if failure != .interrupted { break }
            failure = nil
        }
        let isWanted = Self.abandoned.withLock { abandoned in
            let isWanted = if case .wanted = state { true } else { false }
            state = .ended(failure)
            abandoned.removeAll { $0 === self }
            return isWanted
        }
        if isWanted { ended.signal() } else { file.giveBackFlock() }
    }

    /// - Returns: the open file that has the flock; nil if it did not come until `end`.
    func wait(until end: UInt64) throws(DataProtectionError) -> LowerFile? {
        // In short times: a test moves the clock.
        while !ended.wait(for: .milliseconds(20)), Clock.monotonic() < end {}
        let outcome = Self.abandoned.withLock { abandoned in
            if case .wanted = state {
                state = .abandoned
                abandoned.append(self)
            }
            return state
        }
        guard case .ended(let failure) = outcome else { return nil }
        if let failure { throw .system(file.path, operation: "flock", failure) }
        return file
    }
}
