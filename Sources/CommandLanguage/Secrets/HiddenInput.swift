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
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]

    /// Opens /dev/tty, asks, and lets `body` read(2) from it while the echo is off. The echo is back when this returns,
    /// and when a signal ends or stops the process meanwhile.
    ///
    /// - Returns: nil if there is no terminal.
    package static func ask<R: ~Copyable>(
        _ question: String, _ body: (_ terminal: Int32) throws(Failure) -> R
    ) throws(Failure) -> R? {
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
        return try body(descriptor)
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
