import Glibc

/// A question that only a person at a terminal can answer.
enum Confirmation {
    case yes, no, noTerminal

    /// Asks on the controlling terminal. Anything but y or yes is no.
    static func ask(_ question: String) -> Confirmation {
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard terminal >= 0 else { return .noTerminal }
        defer { close(terminal) }
        _ = write(terminal, question, strlen(question))
        var answer = [UInt8](repeating: 0, count: 256)
        let count = read(terminal, &answer, answer.count)
        let word = String(decoding: answer[..<max(0, count)], as: UTF8.self).filter { !$0.isWhitespace }.lowercased()
        return word == "y" || word == "yes" ? .yes : .no
    }
}
