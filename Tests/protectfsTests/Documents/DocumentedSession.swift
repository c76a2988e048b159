import Foundation

/// A terminal session as a document shows it, and what came of typing it.
struct DocumentedSession {
    /// `$ command`, further lines of it after `> `, and what the terminal shows then.
    struct Command {
        var typed: String
        var shown: [String]
    }

    let commands: [Command]

    init(_ text: String) {
        var commands: [Command] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            if line.hasPrefix("$ ") {
                commands.append(Command(typed: String(line.dropFirst(2)), shown: []))
            } else if !commands.isEmpty, line.hasPrefix("> "), commands[commands.count - 1].shown.isEmpty {
                commands[commands.count - 1].typed += "\n" + line.dropFirst(2)
            } else if !commands.isEmpty {
                commands[commands.count - 1].shown.append(line)
            }
        }
        self.commands = commands
    }

    /// What differs between two runs; and the home directory, which is `/home/ann` in documents.
    private static let placeholders: [(pattern: String, name: String)] = [
        ("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}", "DATE"),
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
        ("([0-9A-Z]{4}-){7}[0-9A-Z]{4}", "RECOVERY CODE"),
        ("type group [1-8] of it: [0-9A-Z]{4}", "GROUP"),
        ("\\b[0-9a-f]{32}\\b", "ID"),
        ("pbkdf2-sha256\\$i=[0-9]+,l=32\\$[A-Za-z0-9+/]{22}\\$[A-Za-z0-9+/]{43}", "HASH"),
        // A line, for what depends on the machine.
        ("secrets in this command: .*", "secrets in this command: …"),
    ]

    /// Text in which only what matters is left.
    static func comparable(_ lines: [String]) -> [String] {
        var lines = lines.map { line in
            placeholders.reduce(line) { line, placeholder in
                line.replacingOccurrences(of: placeholder.pattern, with: placeholder.name, options: .regularExpression)
            }.replacingOccurrences(of: "[ \t]+$", with: "", options: .regularExpression)
        }
        while lines.last == "" { lines.removeLast() }
        return lines
    }

    /// Whether a document may say `expected` of a terminal that showed `actual`. A line `…` stands for any lines.
    static func agree(_ expected: [String], _ actual: [String]) -> Bool {
        guard let first = expected.first else { return actual.isEmpty }
        if first == "…" {
            return (0...actual.count).contains { agree(Array(expected.dropFirst()), Array(actual.dropFirst($0))) }
        }
        return first == actual.first && agree(Array(expected.dropFirst()), Array(actual.dropFirst()))
    }
}

/// A user, ann, who types what documents say: a home directory, a keybag in its usual place, unlocked, and a terminal.
final class Reader {
    private let sandbox: CommandSandbox
    private let home: String

    init() throws {
        sandbox = try CommandSandbox(makesKeybag: false)
        home = sandbox.path("home")
        try sandbox.put("", at: "home/.profile")
        // As many iterations as are not warned of.
        try sandbox.derivingAlike {
            try sandbox.makeKeybag(in: home + "/.local/share/protectfs/default", iterations: 600_000)
        }
        let done = try sandbox.shell(
            """
            cd "$HOME" && mkdir -p "$0/bin" .local/state && ln -s "$PROTECTFS" "$0/bin/protectfs" &&
            mv ../state/protectfs .local/state/
            printf '%s\\n' "$1" >passcode.txt
            """ + "\n" + Self.environment + "protectfs unlock --passcode-fd 3 3<passcode.txt",
            [sandbox.root, CommandSandbox.passcode])
        guard done.status == 0 else { throw CommandSandbox.Unexpected(done.errors) }
    }

    deinit {
        // Whatever was mounted, whatever keybags were made, and whatever became of them.
        _ = try? sandbox.shell(
            """
            cut -d ' ' -f 2 /proc/self/mounts | grep -F "$(pwd -P)/home/" | while read -r point; do fusermount3 -u -z "$point"; done
            for uuid in home/.local/state/protectfs/keybags/*; do
                for key in 1 2; do keyctl purge user "protectfs:${uuid##*/}:$key"; done
                keyctl purge user "protectfs-attempts:${uuid##*/}"
            done
            """)
    }

    /// The variables of a login, and no others of ours.
    private static let environment = """
        unset XDG_DATA_HOME XDG_STATE_HOME XDG_CONFIG_HOME PROTECTFS_KEYBAG PROTECTFS
        export PATH="${HOME%/home}/bin:/usr/bin:/bin" TERM=dumb EDITOR=true LC_ALL=C.UTF-8
        cd "$HOME"

        """

    /// Types the commands of a session and says what the terminal showed after each.
    ///
    /// - Parameter preparation: commands that go before, unseen; they must succeed.
    func type(_ session: DocumentedSession, after preparation: String?) throws -> [[String]] {
        if let preparation {
            let done = try sandbox.shell("exec bash -euc \"$0\"", [Self.environment + preparation])
            guard done.status == 0 else { throw CommandSandbox.Unexpected("\(preparation): \(done.errors)") }
        }
        let script = Self.environment + session.commands.map { "printf '\\036'\n\($0.typed)\n" }.joined()
        let prompts = session.commands.flatMap(\.shown)
        let done = try sandbox.shell(
            "exec python3 -c \"$0\" \"$@\"",
            [Self.terminal, script, CommandSandbox.passcode] + prompts)
        guard done.status == 0 else { throw CommandSandbox.Unexpected(done.errors + done.text) }
        return done.text.replacingOccurrences(of: "\r\n", with: "\n")
            .replacingOccurrences(of: "\r[^\n]*\r", with: "", options: .regularExpression)  // a progress bar
            .replacingOccurrences(of: home, with: "/home/ann")
            .split(separator: "\u{1E}", omittingEmptySubsequences: false).dropFirst()
            .map { $0.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) }
    }

    /// bash on a terminal of its own. A prompt that a document answers is answered so; one for a group of a recovery code
    /// that was shown, with that; others want the passcode.
    private static let terminal = """
        import os, pty, re, select, sys, time
        script, passcode, lines = sys.argv[1], sys.argv[2], sys.argv[3:]
        child, master = pty.fork()
        if child == 0: os.execv("/bin/bash", ["bash", "--norc", "-c", script])
        shown, answered, deadline = b"", 0, time.time() + 300
        while time.time() < deadline:
            if select.select([master], [], [], 0.1)[0]:
                try: piece = os.read(master, 65536)
                except OSError: break
                if not piece: break
                shown += piece
                continue
            last = re.split("[\\n\\036]", shown.decode(errors="replace").replace("\\r", ""))[-1]
            if len(shown) == answered or not re.search("[:?\\\\]] $", last): continue
            answers = [line[len(last):] for line in lines if line.startswith(last) and len(line) > len(last)]
            group = re.search("type group ([1-8]) of it: $", last)
            if group: answers = [re.findall(b"(?:[0-9A-Z]{4}-){7}[0-9A-Z]{4}", shown)[-1].decode().split("-")[int(group[1]) - 1]]
            os.write(master, ((answers[0] if answers else passcode) + "\\n").encode())
            answered = len(shown)
        else: sys.exit("still running: %r" % shown)
        os.waitpid(child, 0)
        sys.stdout.buffer.write(shown)
        """
}
