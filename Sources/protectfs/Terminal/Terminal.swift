import DataProtection
import Glibc

/// The controlling terminal, for what is no secret or stands on its screen anyway. Secrets: ``HiddenInput``.
enum Terminal {
    /// Whether a person can be asked.
    static var isThere: Bool {
        guard let terminal = open() else { return false }
        close(terminal)
        return true
    }

    /// Shows text, whatever standard output leads to.
    static func say(_ text: String) {
        guard let terminal = open() else { return }
        defer { close(terminal) }
        _ = write(terminal, text, strlen(text))
    }

    /// Asks for a line, with echo.
    ///
    /// - Parameter limit: bytes of the answer; a longer one is cut one byte behind it.
    /// - Returns: nil if there is no terminal.
    static func ask(_ question: String, upTo limit: Int = 256) throws(Failure) -> SecretBytes? {
        guard let terminal = open() else { return nil }
        defer { close(terminal) }
        Interruption.unblock([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP])
        _ = write(terminal, question, strlen(question))
        return try SecretLine.read(fromTerminal: terminal, upTo: limit)
    }

    /// Asks for a word: without spaces, in lower case.
    static func askWord(_ question: String) throws(Failure) -> String? {
        guard let line = try ask(question) else { return nil }
        return line.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }.filter { !$0.isWhitespace }.lowercased()
    }

    private static func open() -> Int32? {
        let terminal = Glibc.open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        return terminal >= 0 ? terminal : nil
    }
}
