import Foundation

/// A conversation on a pseudoterminal, led by Python's pty module.
struct PseudoTerminal: Decodable {
    /// Exit status; 128 + the signal that ended the command.
    let status: Int32
    /// Everything that the terminal showed.
    let shown: String
    /// For each `look`, whether the terminal echoed then.
    let echo: [Bool]

    /// The recovery code that was shown last.
    var recoveryCode: String? {
        shown.matches(of: /(?:[0-9A-Z]{4}-){7}[0-9A-Z]{4}/).last.map { String($0.output) }
    }

    /// A step of a conversation.
    enum Step {
        /// Waits until the terminal shows this, after what was waited for before.
        case expect(String)
        /// Types this.
        case send(String)
        /// Notes whether the terminal echoes.
        case look
        /// Sends the command a signal.
        case signal(Int32)
        /// Waits for the command to be stopped.
        case stopped
        /// Types the group of the recovery code that is shown and asked for.
        case confirmGroup
    }

    /// Runs `protectfs` with a terminal of its own.
    static func run(_ arguments: [String], in sandbox: CommandSandbox, _ steps: [Step]) throws -> PseudoTerminal {
        let encoded = steps.map { step -> [String] in
            switch step {
            case .expect(let text): ["expect", text]
            case .send(let text): ["send", text]
            case .look: ["look", ""]
            case .signal(let number): ["signal", "\(number)"]
            case .stopped: ["stopped", ""]
            case .confirmGroup: ["group", ""]
            }
        }
        let script = String(decoding: try JSONEncoder().encode(encoded), as: UTF8.self)
        let done = try sandbox.shell(
            "exec python3 -c \"$0\" \"$@\"", [leader, script, CommandSandbox.executable] + arguments)
        guard done.status == 0 else { throw CommandSandbox.Unexpected(done.errors + done.text) }
        return try JSONDecoder().decode(PseudoTerminal.self, from: done.output)
    }

    /// Last, the echo is looked at once more, when the command has ended.
    private static let leader = """
        import fcntl, json, os, pty, re, select, signal, sys, termios, time
        steps = json.loads(sys.argv[1])
        # As a shell: this process leads the session, the command is its foreground job. A command without such a parent
        # could not be stopped.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        ready, go = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(ready, 1)
            # Whoever runs the tests may ignore some of them, as nohup(1) does.
            for number in signal.SIGTTOU, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
            for end in 0, 1, 2: os.dup2(slave, end)
            os.execv(sys.argv[2], sys.argv[2:])
        os.setpgid(child, child)
        os.tcsetpgrp(slave, child)
        os.close(go)
        shown, seen, echo, deadline = b"", 0, [], time.time() + 180
        def take(wait):
            global shown
            if select.select([master], [], [], wait)[0]:
                shown += os.read(master, 4096)
                return True
            return False
        def look():
            echo.append(bool(termios.tcgetattr(slave)[3] & termios.ECHO))
        for kind, text in steps:
            if kind == "expect":
                while text.encode() not in shown[seen:]:
                    take(0.1)
                    if time.time() > deadline: sys.exit("waiting for %r: %r" % (text, shown))
                seen = shown.index(text.encode(), seen) + len(text)
            elif kind == "send": os.write(master, text.encode())
            elif kind == "look": look()
            elif kind == "group":
                code = re.findall(rb"(?:[0-9A-Z]{4}-){7}[0-9A-Z]{4}", shown)[-1].split(b"-")
                os.write(master, code[int(re.findall(rb"type group ([1-8])", shown)[-1]) - 1].lower() + b"\\n")
            elif kind == "signal": os.kill(child, int(text))
            elif kind == "stopped":
                while not os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]): pass
        while True:
            take(0.05)
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid: break
            if time.time() > deadline: os.kill(child, 9); sys.exit("still running: %r" % shown)
        while take(0.05): pass
        look()
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"status": code if code >= 0 else 128 - code, "shown": shown.decode(errors="replace"), "echo": echo}))
        """
}
