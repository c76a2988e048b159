import DataProtection
import Glibc

/// `queue run` as a process of its own, which an unlock leaves behind.
enum BackgroundQueue {
    /// POSIX_SPAWN_SETSID of spawn.h, which hides it behind _GNU_SOURCE.
    private static let newSession: Int16 = 0x80

    /// Starts it: in a session of its own, in `/`, with no descriptor of ours, so that no terminal, pipe or disk waits for it.
    ///
    /// That it cannot be started is no reason to call the unlock a failure.
    static func start(for keybag: Keybag) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for descriptor: CInt in 0...2 {
            posix_spawn_file_actions_addopen(
                &actions, descriptor, "/dev/null", descriptor == 0 ? O_RDONLY : O_WRONLY, 0)
        }
        closeOnExec()
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setflags(&attributes, newSession)
        let words = ["protectfs", "queue", "run", "--background", "--keybag"].map { (word: String) in strdup(word) }
        let place = (try? keybag.directory.absolute()) ?? keybag.directory
        let arguments = words + [place.withPlatformString { strdup($0) }, nil]
        defer { for argument in arguments { free(argument) } }
        var child = pid_t()
        // The running program, not what PATH has under that name: see SiblingProgram.
        let result = posix_spawn(&child, "/proc/self/exe", &actions, &attributes, arguments, environ)
        guard result == 0 else {
            StandardError.line(.warning, "cannot start the queued work: \(Errno(rawValue: result).spoken)")
            StandardError.line(.hint, "run it now: protectfs queue run")
            return
        }
    }

    /// What our parent has given us, such as the pipe of a passcode.
    private static func closeOnExec() {
        for name in (try? TreeWalk.contents(of: "/proc/self/fd")) ?? [] {
            if let descriptor = name.lastComponent.flatMap({ CInt($0.string) }), descriptor > 2 {
                _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            }
        }
    }

    /// The lowest priority, which that of input and output follows (ioprio_set(2)), and no directory that is in use.
    static func giveWay() {
        // Not nice(3), which adds: the thread that started this program may have had less than 0.
        _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 19)
        _ = chdir("/")
    }
}
