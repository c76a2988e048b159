import CommandLanguage
import DataProtection
import Dispatch
import Glibc
import POSIXThreads
import ProtectionMount
import Synchronization

/// SIGTERM, SIGINT and SIGHUP unmount; the server ends when the kernel says that it is unmounted.
///
/// No program can open a file there from then on. Those that have files open keep them, and a lock goes on to take their pages away, until
/// the last of these files is closed.
final class UnmountAtSignal: Sendable {
    private let point = Mutex<FilePath?>(nil)
    private let isMounted = DispatchSemaphore(value: 0)

    /// Call this before any thread is there. A signal that comes before ``begin(_:)`` unmounts then.
    ///
    /// - Throws: `noThread`.
    init() throws(MountError) {
        do throws(POSIXThread.Refusal) {
            try AwaitedSignals.each(of: [SIGTERM, SIGINT, SIGHUP]) { [self] in
                isMounted.wait()
                isMounted.signal()
                if let point = point.withLock({ $0 }) { Self.unmount(point) }
            }
        } catch {
            throw .noThread(Errno(rawValue: error.code))
        }
    }

    /// The mount is there.
    func begin(_ point: FilePath) {
        self.point.withLock { $0 = point }
        isMounted.signal()
    }

    private static func unmount(_ point: FilePath) {
        let words = ["fusermount3", "-u", "-z"].map { Array($0.utf8) } + [point.bytes]
        if let child = try? NewProcess("fusermount3", words).start() { NewProcess.wait(for: child) }
    }
}
