import CSecretMemory
import Glibc

/// The first thing that happens in the process.
///
/// Nothing is done about Swift's backtracer, which prints registers: a static executable without `swift-backtrace` beside
/// it has none, and where there is one, `SWIFT_BACKTRACE=enable=no` has to be set before the process begins.
package enum ProcessHardening {
    // Set once, before anything else happens.
    private nonisolated(unsafe) static var brokenPipe = sigaction()

    package static func apply() {
        // Best effort: on failure the key bytes are still in memory that no core dump holds.
        _ = protectfs_refuse_dumps()
        refuseCoreDumps()
        occupyStandardDescriptors()
        // A lock must not end half way because nobody reads its warnings.
        sigaction(SIGPIPE, nil, &brokenPipe)
        signal(SIGPIPE, SIG_IGN)
        // Nor because of a limit on the size of files (ulimit -f): the write says EFBIG then.
        signal(SIGXFSZ, SIG_IGN)
        // Our parent may ignore the ends of its children; we inherit that, and could not wait for our own children.
        signal(SIGCHLD, SIG_DFL)
    }

    /// For this process, and for the programs that it starts or becomes, which hold plaintext.
    ///
    /// The limit is 1 byte and not 0: the kernel pipes a dump to a program (`|` in core_pattern) whatever the limit is, unless
    /// it is exactly 1; and a file is not begun below a page (do_coredump of fs/coredump.c).
    private static func refuseCoreDumps() {
        for bytes: rlim_t in [1, 0] {
            var limit = rlimit(rlim_cur: bytes, rlim_max: bytes)
            if setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit) == 0 { return }
        }
    }

    /// For the program that this process becomes.
    package static func restoreBrokenPipe() {
        sigaction(SIGPIPE, &brokenPipe, nil)
        signal(SIGXFSZ, SIG_DFL)
    }

    /// A file that is opened must not become standard output. What stands in for a closed one fails on use.
    private static func occupyStandardDescriptors() {
        for descriptor: Int32 in 0...2 where fcntl(descriptor, F_GETFD) == -1 {
            _ = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY)
        }
    }
}
