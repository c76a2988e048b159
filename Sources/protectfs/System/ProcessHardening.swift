import CSecretMemory
import Glibc

/// The first thing that happens in the process.
///
/// Nothing is done about Swift's backtracer, which prints registers: a static executable without `swift-backtrace` beside
/// it has none, and where there is one, `SWIFT_BACKTRACE=enable=no` has to be set before the process begins.
enum ProcessHardening {
    // Set once, before anything else happens.
    private nonisolated(unsafe) static var brokenPipe = sigaction()

    static func apply() {
        // Best effort: on failure the key bytes are still in memory that no core dump holds.
        _ = protectfs_refuse_dumps()
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        occupyStandardDescriptors()
        // A lock must not end half way because nobody reads its warnings.
        sigaction(SIGPIPE, nil, &brokenPipe)
        signal(SIGPIPE, SIG_IGN)
    }

    /// For the program that this process becomes.
    static func restoreBrokenPipe() { sigaction(SIGPIPE, &brokenPipe, nil) }

    /// A file that is opened must not become standard output. What stands in for a closed one fails on use.
    private static func occupyStandardDescriptors() {
        for descriptor: Int32 in 0...2 where fcntl(descriptor, F_GETFD) == -1 {
            _ = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY)
        }
    }
}
