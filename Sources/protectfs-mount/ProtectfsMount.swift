import CommandLanguage
import DataProtection
import Glibc
import ProtectionMount

/// The program that serves a mount. `protectfs mount` becomes or starts it when it has checked the arguments:
/// `protectfs-mount KEYBAG DIR POINT`, and `--background` and `--read-write` before them. POINT is DIR for a mount over the directory itself. The
/// server starts it again as its ``MountGuardian``.
@main
struct ProtectfsMount {
    static func main() {
        ProcessHardening.apply()
        // The kernel applies the umask of each program. To correct the mode of what was made would take a second look by its name, and another user
        // may have put something else there. Files of our own say their mode themselves.
        umask(0)
        do {
            var words = CommandLine.unsafeArguments.dropFirst()
            if MountGuardian.isMeant(by: Array(words)) { return MountGuardian.watch(Array(words)) }
            if let (remains, words) = MountGuardian.takenOver(by: Array(words)) { return takeOver(remains, words) }
            let isInBackground = words.first == "--background"
            if isInBackground {
                words = words.dropFirst()
                // A program that waits for the end of a pipe, which our parent inherited, must not wait for us.
                closefrom(3)
            }
            let isReadOnly = words.first != "--read-write"
            if !isReadOnly { words = words.dropFirst() }
            guard words.count == 3 else {
                throw Failure(.usage, "wrong arguments", hint: "start it by: protectfs mount DIR POINT")
            }
            raiseFileLimit()
            let paths = Array(words)
            let unmounting = try UnmountAtSignal()
            let keybag = try Keybag(at: paths[0], warn: ProtectionWarning.print)
            let point = try MountPoint(paths[2], for: paths[1], keybag: keybag)
            let mount = try Mount(paths[1], at: point, keybag: keybag, isReadOnly: isReadOnly)
            unmounting.begin(point.path)
            let source = point.isInPlace ? point.path : try paths[1].absolute()
            let guardian = mount.remains.flatMap { MountGuardian(of: $0, [keybag.directory, source, point.path]) }
            if isInBackground { leaveTerminal() }
            try mount.serve()
            guardian?.dismiss()
        } catch {
            let failure = Failure(error)
            failure.report()
            exit(failure.status.rawValue)
        }
    }

    /// Goes on in the place of a server that was killed, or clears what that has left.
    ///
    /// - Parameter words: the keybag, the directory and the point.
    private static func takeOver(_ remains: MountRemains, _ words: [FilePath]) {
        do {
            raiseFileLimit()
            let unmounting = try UnmountAtSignal()
            let keybag = try Keybag(at: words[0], warn: ProtectionWarning.print)
            let mount = try Mount(after: remains, isInPlace: words[1] == words[2], keybag: keybag)
            unmounting.begin(words[2])
            let guardian = mount.remains.flatMap { MountGuardian(of: $0, words) }
            try mount.serve()
            guardian?.dismiss()
        } catch { remains.clear() }
    }

    /// Each file that programs have open here is open in this process too: as many as the system allows.
    private static func raiseFileLimit() {
        var limit = rlimit()
        let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(files, &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(files, &limit)  // refused: then there are fewer, and open(2) says EMFILE
    }

    /// Tells the program that waits on standard output that the mount is there, and lets go of the terminal.
    private static func leaveTerminal() {
        _ = write(1, "\n", 1)
        setsid()
        _ = chdir("/")
        let null = open("/dev/null", O_RDWR)
        for descriptor: Int32 in 0...2 { dup2(null, descriptor) }
        if null > 2 { close(null) }
    }
}

extension CommandLine {
    /// The arguments as they came: paths need not be UTF-8.
    fileprivate static var unsafeArguments: [FilePath] {
        (0..<Int(argc)).compactMap { unsafeArgv[$0].map { FilePath(platformString: $0) } }
    }
}
