import DataProtection
import Glibc

/// The user's editor, told to keep what it has to itself.
struct Editor {
    /// For a shell, as in `VISUAL`: a program, perhaps with options.
    let command: String

    /// `--editor`, else `VISUAL`, else `EDITOR`, else the vi or nano that is there.
    ///
    /// - Throws: status 66.
    static func chosen(_ option: String?) throws(Failure) -> Editor {
        let variables = ["VISUAL", "EDITOR"].map { (name: String) in getenv(name).map { String(cString: $0) } }
        for command in [option] + variables {
            if let command, command.contains(where: { !$0.isWhitespace }) { return Editor(command: command) }
        }
        for command in ["vi", "nano"] where program(named: command) != nil { return Editor(command: command) }
        throw Failure(.notFound, "there is no editor", hint: "name one: --editor COMMAND, or set EDITOR")
    }

    /// The program's name, as a shell takes it: behind assignments, without quotes.
    var name: String {
        var words = [""]
        var quote: Character?
        var isEscaped = false
        for character in command {
            switch character {
            case _ where isEscaped:
                words[words.count - 1].append(character)
                isEscaped = false
            case "\\" where quote != "'": isEscaped = true
            case quote: quote = nil
            case "'" where quote == nil, "\"" where quote == nil: quote = character
            case _ where quote == nil && character.isWhitespace: words.append("")
            default: words[words.count - 1].append(character)
            }
        }
        return words.first { !$0.isEmpty && !$0.contains("=") } ?? ""
    }

    /// Arguments that keep an editor we know from writing what is edited anywhere else: swap and undo files, backups,
    /// registers and marks. They come after the user's own configuration, and win.
    private var precautions: [String] {
        let program = Self.program(named: name) ?? FilePath(name)
        let name = program.lastComponent?.string ?? ""
        let off = "set nobackup nowritebackup noswapfile noundofile"
        // vim(1), starting.txt: -i NONE no viminfo or shada, -n no swap file, -f no process of its own for a window.
        if name.hasPrefix("nvim") { return ["-i", "NONE", "-n", "-c", "\(off) shada="] }
        if name.hasPrefix("vim") || name.hasPrefix("gvim") || name == "vi" && Self.isVim(program) {
            return ["-f", "-i", "NONE", "-n", "-c", "\(off) viminfo="]
        }
        // nano(1): a nanorc can ask for backups and for a history of what was searched for.
        if name.hasPrefix("nano") { return ["--ignorercfiles"] }
        if name.hasPrefix("emacs"), !name.hasPrefix("emacsclient") {
            return ["--eval", "(setq make-backup-files nil auto-save-default nil create-lockfiles nil)"]
        }
        return []
    }

    /// Whether what is called `vi` is vim: where it is vim's smallest form, or a script that starts vim.
    private static func isVim(_ vi: FilePath) -> Bool {
        guard let answer = popen("\(quoted(vi)) --version </dev/null 2>/dev/null", "r") else { return false }
        defer { pclose(answer) }
        var line = [CChar](repeating: 0, count: 16)
        return fgets(&line, CInt(line.count), answer) != nil && strncmp(line, "VIM ", 4) == 0
    }

    /// The shell makes way for the editor, so that signals reach it. Where it cannot, it waits: Ctrl-C is not for it.
    private var script: String {
        let isOneProgram = !command.contains(where: { ";&|()<>\n".contains($0) })
        // env(1), because of assignments before the program.
        return (isOneProgram ? "exec env " : "trap : INT QUIT; ") + command + " \"$@\""
    }

    /// The file that a name leads to through PATH and links: `vi` may be vim.
    private static func program(named name: String) -> FilePath? {
        let path = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        let places = name.contains("/") ? [name] : path.split(separator: ":").map { "\($0)/\(name)" }
        for place in places where access(place, X_OK) == 0 {
            guard let found = realpath(place, nil) else { continue }
            defer { free(found) }
            return FilePath(platformString: found)
        }
        return nil
    }

    /// Starts it in the foreground, on the plain copy.
    ///
    /// The copy's path is an argument of the shell's, never part of what the shell reads. No core dump of it can be made:
    /// the limit that ``ProcessHardening`` sets is inherited.
    /// - Parameter mask: the signals that are blocked in it.
    /// - Throws: status 71.
    func start(on copy: FilePath, temporary: FilePath, mask: sigset_t) throws(Failure) -> pid_t {
        let words = ["sh", "-c", script, "sh"] + precautions
        var shell = NewProcess("/bin/sh", words.map { Array($0.utf8) } + [copy.bytes])
        shell.environment = environment(temporary: temporary)
        shell.signals = (usual: [SIGINT, SIGQUIT, SIGPIPE, SIGIO], blocked: mask)
        do throws(Errno) { return try shell.start() } catch {
            throw Failure(.systemRefused, "cannot start /bin/sh: \(error.spoken)")
        }
    }

    /// Ours, with the temporary files in memory. NEXINIT is read by nvi alone, which writes a second copy to a disk unless
    /// it is told where to before it opens the file.
    private func environment(temporary: FilePath) -> [[UInt8]] {
        let ours = ["TMPDIR=": "", "TMP=": "", "TEMP=": "", "NEXINIT=": "set recdir="]
        var variables: [[UInt8]] = []
        var next = environ
        while let variable = next.pointee {
            let bytes = Array(UnsafeRawBufferPointer(start: variable, count: strlen(variable)))
            if !ours.keys.contains(where: { bytes.starts(with: $0.utf8) }) { variables.append(bytes) }
            next += 1
        }
        return variables + ours.map { Array($0.utf8) + Array($1.utf8) + temporary.bytes }
    }
}
