import DataProtection
import Glibc

// What the signal handlers need. One thread prompts.
private nonisolated(unsafe) var terminal: Int32 = -1
private nonisolated(unsafe) var shownMode = termios()
private nonisolated(unsafe) var hiddenMode = termios()
private nonisolated(unsafe) var prompt: UnsafeMutablePointer<CChar>?

/// Gives the echo back, then lets the signal do what it does. Only async-signal-safe calls (signal-safety(7)).
private func restoreEcho(_ signal: Int32) {
    tcsetattr(terminal, TCSANOW, &shownMode)
    _ = write(terminal, "\n", 1)
    if signal == SIGINT { _exit(ExitStatus.interrupted.rawValue) }
    var action = sigaction()
    action.__sigaction_handler.sa_handler = SIG_DFL
    var before = sigaction()
    sigaction(signal, &action, &before)
    var only = sigset_t()
    sigemptyset(&only)
    sigaddset(&only, signal)
    sigprocmask(SIG_UNBLOCK, &only, nil)
    raise(signal)
    // Only SIGTSTP comes back: somebody typed fg.
    sigaction(signal, &before, nil)
    tcsetattr(terminal, TCSAFLUSH, &hiddenMode)
    if let prompt { _ = write(terminal, prompt, strlen(prompt)) }
}

/// A line from the controlling terminal without echo.
package enum HiddenInput {
    /// Bytes of a line. A terminal drops what is behind 4,095 (N_TTY of the kernel), so that a line of as many may have been cut.
    private static let longest = 4094
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]

    /// What is typed, where there must be a terminal.
    ///
    /// - Parameters:
    ///   - noun: what it is, for the message.
    ///   - limit: bytes.
    ///   - option: takes it from a descriptor instead.
    /// - Throws: status 64 if there is no terminal.
    package static func ask(
        _ question: String, for noun: String, upTo limit: Int, insteadOf option: String
    ) throws(Failure) -> SecretBytes {
        if let typed = try ask(question, upTo: limit) { return typed }
        throw Failure(
            .usage, "there is no terminal to ask for a \(noun)",
            hint: "give it through a file descriptor: \(SecretDescriptor.example(option))")
    }

    /// Opens /dev/tty, asks, and reads a line from it while the echo is off. The echo is back when this returns, and when a signal
    /// ends or stops the process meanwhile.
    ///
    /// - Parameter limit: bytes: what is longer comes as one more.
    /// - Returns: nil if there is no terminal.
    /// - Throws: status 64 for more than a terminal gives in one line, where that is less than the limit.
    package static func ask(_ question: String, upTo limit: Int) throws(Failure) -> SecretBytes? {
        let descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        guard tcgetattr(descriptor, &shownMode) == 0 else { return nil }
        hiddenMode = shownMode
        hiddenMode.c_lflag &= ~tcflag_t(ECHO)
        hiddenMode.c_lflag |= tcflag_t(ICANON | ISIG)
        terminal = descriptor
        prompt = strdup(question)
        defer {
            free(prompt)
            prompt = nil
        }
        let before = install()
        Interruption.unblock(signals)
        defer { restore(before) }
        guard tcsetattr(descriptor, TCSAFLUSH, &hiddenMode) == 0 else { return nil }
        _ = write(descriptor, prompt, strlen(prompt!))
        defer {
            tcsetattr(descriptor, TCSAFLUSH, &shownMode)
            _ = write(descriptor, "\n", 1)
        }
        let typed = try SecretLine.read(fromTerminal: descriptor, upTo: min(limit, longest))
        guard typed.count <= longest else {
            throw Failure(
                .usage, "what was typed is longer than the \(longest) bytes that a terminal gives in one line",
                hint: "give it through a file descriptor instead")
        }
        return typed
    }

    private static func install() -> [(signal: Int32, action: sigaction)] {
        signals.map { signal in
            var action = sigaction()
            action.__sigaction_handler.sa_handler = restoreEcho
            action.sa_flags = SA_RESTART
            var before = sigaction()
            sigaction(signal, nil, &before)
            if !before.isIgnored { sigaction(signal, &action, nil) }
            return (signal, before)
        }
    }

    private static func restore(_ actions: [(signal: Int32, action: sigaction)]) {
        for (signal, action) in actions {
            var action = action
            sigaction(signal, &action, nil)
        }
    }
}
