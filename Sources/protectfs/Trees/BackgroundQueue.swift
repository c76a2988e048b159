import DataProtection
import Glibc

/// `queue run` as a process of its own, which an unlock leaves behind.
enum BackgroundQueue {
    /// Starts it: in a session of its own, in `/`, with no descriptor of ours, so that no terminal, pipe or disk waits for it.
    ///
    /// That it cannot be started is no reason to call the unlock a failure.
    static func start(for keybag: Keybag) {
        closeOnExec()
        let place = (try? keybag.directory.absolute()) ?? keybag.directory
        let words = ["protectfs", "queue", "run", "--background", "--keybag"].map { Array($0.utf8) } + [place.bytes]
        // The running program, not what PATH has under that name: see SiblingProgram.
        var process = NewProcess("/proc/self/exe", words)
        process.descriptors = (0...2).map { ($0, .null) }
        process.isInSessionOfItsOwn = true
        do throws(Errno) { _ = try process.start() } catch {
            StandardError.line(.warning, "cannot start the queued work: \(error.spoken)")
            StandardError.line(.hint, "run it now: protectfs queue run")
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
