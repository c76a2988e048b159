import ArgumentParser
import DataProtection
import Glibc

/// A protected file in the user's editor.
struct Edit: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edit", abstract: "Edit a protected file. The plaintext copy is kept in memory only.",
        discussion: """
            The editor gets a copy in memory, in XDG_RUNTIME_DIR or /dev/shm. Each time the editor saves, the file \
            is replaced as a whole and keeps its class. The copy is removed when the editor or protectfs ends. For \
            complete and unless-open files it is also removed within a few seconds of a lock, unless the editor has it \
            open for writing, or is stopped (Ctrl-Z). The editor's own memory cannot be cleared: lock reports the file and the editor, and \
            lock --require-clean fails, until the editor has ended.

            What the editor saves after a lock is sealed in FILE.edited, beside the file, with class unless-open. It \
            replaces the file when the editor ends after an unlock. If somebody else has changed the file, the file \
            stays as it is, your text stays in FILE.edited, and the exit status is 75.

            vi, vim and nvim are told to write no swap, backup, undo and viminfo files; nano and emacs no backups; \
            nvi to keep its recovery files in memory. Other editors only get TMPDIR in memory, and may write \
            plaintext elsewhere.
            """)

    @Argument(help: "The file. If it does not exist, it is created when the editor saves.")
    var file: PathArgument
    @Option(
        help: ArgumentHelp(
            "The editor, as a shell command (default: VISUAL, EDITOR, vi or nano).", valueName: "command"))
    var editor: String?
    @Option(name: .customLong("class"), help: "The class of a new file (default: as for protectfs write).")
    var protectionClass: ProtectionClass?
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        EditDirectory.removeLeftovers()
        let file = try EditedFile(try resolved(file.stored()), as: protectionClass, Keybags(keybag))
        let editor = try Editor.chosen(editor)
        let directory = try EditDirectory(in: try MemoryStorage.directory())
        defer { directory.remove() }
        let guardian = try EditGuardian(over: directory.path)
        defer { guardian.dismiss() }
        MemoryStorage.warnOfSwap()
        file.warnOfOtherNames()
        let program = FilePath(editor.name).lastComponent?.string ?? editor.command
        let held = try HeldPlaintext(by: program, keybag: file.keybag)
        defer { held.end() }
        if file.isShutByLock { held.add(file.path) }
        try file.copy(to: directory)
        try edit(file, with: editor, in: directory, notedBy: held)
    }

    /// What is replaced is the file, not a link that leads to it.
    private func resolved(_ path: FilePath) throws(Failure) -> FilePath {
        var status = stat()
        guard path.withPlatformString({ lstat($0, &status) }) == 0, status.st_mode & S_IFMT == S_IFLNK else {
            return path
        }
        guard let found = path.canonical else {
            throw Failure(DataProtectionError.system(path, operation: "realpath", Errno.current))
        }
        return found
    }

    private func edit(
        _ file: EditedFile, with editor: Editor, in directory: EditDirectory, notedBy held: HeldPlaintext
    ) throws {
        let terminal = TerminalMode()
        let session = try EditSession(file, editor, in: directory, notedBy: held)
        let status = session.run()
        if status != 0 { terminal?.restore() }
        if status == 0 || session.hasUnsealed { try saveAtLast(file, directory) }
        do throws(DataProtectionError) { try file.putInPlace() } catch {
            if let beside = file.beside { StandardError.line(.note, "what was saved is in \(quoted(beside.path))") }
            throw error
        }
        try report(file)
        if session.isEnding { throw ExitStatus.interrupted }
        switch status {
        case 0: return
        case 126, 127: throw Failure(.notFound, "the editor \(quoted(editor.command)) cannot be run")
        default:
            let cause = status > 128 ? "signal \(status - 128)" : "status \(status)"
            throw Failure(
                .interrupted, "the editor ended with \(cause); only what it had saved before is written")
        }
    }

    /// The disk may be full: as long as somebody is there, nothing is given up.
    private func saveAtLast(_ file: EditedFile, _ directory: EditDirectory) throws {
        while true {
            do throws(DataProtectionError) {
                try file.save(directory, isLast: true)
                return
            } catch {
                Failure(error).report()
                guard Confirmation.ask("Discard what the editor saved? Press return to try again. [y/N] ") == .no else {
                    throw Failure(error.exitStatus, "what the editor saved is discarded")
                }
            }
        }
    }

    private func report(_ file: EditedFile) throws(Failure) {
        guard let beside = file.beside else { return }
        let (path, other) = (quoted(file.path), quoted(beside.path))
        let toPlace = "mv \(other) \(path) && protectfs class \(path) \(file.protectionClass.shortName)"
        switch beside.reason {
        case .locked:
            throw Failure(
                .notNow, "\(path) is locked; what was saved since then is in \(other)",
                hint: "after an unlock: \(toPlace)")
        case .unfinished:
            throw Failure(
                .notNow,
                "a program still writes to the copy of \(path), so it stays as it is; the text so far is in \(other)",
                hint: "compare them with protectfs cat; to keep the text so far: \(toPlace)")
        case .changed:
            throw Failure(
                .notNow, "somebody else has changed \(path), so it stays as it is; your text is in \(other)",
                hint: "compare them with protectfs cat; to keep yours: \(toPlace)")
        }
    }
}

/// How the terminal is set, for after an editor that could not put it back.
private struct TerminalMode {
    private var mode = termios()

    init?() { if tcgetattr(0, &mode) != 0 { return nil } }

    func restore() {
        var mode = mode
        signal(SIGTTOU, SIG_IGN)
        tcsetattr(0, TCSADRAIN, &mode)
    }
}
