import Glibc
import Synchronization

/// A bar on standard error for work that lasts: only on a terminal, only after a second, gone at the end.
///
/// Drawn with carriage returns and spaces alone, so that it goes on every terminal.
package final class Progress {
    private static let terminalWidth = 40
    /// Less than that, so that the `^C` which a terminal echoes does not wrap.
    private static let width = terminalWidth - 3
    private static let isShown = Atomic(false)

    private let label: String
    private let total: Int64
    private let start = Progress.now()
    private var lastDrawn = 0.0
    /// What was last shown, or would have been on a terminal.
    package private(set) var done: Int64 = 0
    private let isTerminal: Bool

    /// - Parameters:
    ///   - label: at most 12 characters.
    ///   - total: 0 if it is not known.
    ///   - isTyped: somebody types what is worked on, where the bar would stand.
    package init(_ label: String, total: Int64, isTyped: Bool = false) {
        isTerminal = isatty(2) == 1 && !isTyped
        self.label = label
        self.total = total
    }

    /// The bar goes.
    package func finish() { Progress.clear() }

    deinit { Progress.clear() }

    /// Runs one piece of the work, `size` long, which calls its argument with what it has done of that.
    package func during<R, E: Error>(_ size: Int64, _ body: ((Int64) -> Void) throws(E) -> R) throws(E) -> R {
        let before = done
        defer { show(before + size) }
        return try body { show(before + $0) }
    }

    /// `done` of the total is done.
    package func show(_ done: Int64) {
        self.done = done
        guard isTerminal else { return }
        let now = Progress.now()
        guard now - start > 1, now - lastDrawn > 0.1 else { return }
        lastDrawn = now
        Progress.isShown.store(true, ordering: .relaxed)
        StandardError.raw("\r" + Progress.line(label, done: done, total: total))
    }

    /// Text in the place of a bar; what does not fit is cut off.
    package func show(text: @autoclosure () -> String) {
        guard isTerminal else { return }
        let now = Progress.now()
        guard now - start > 1, now - lastDrawn > 0.1 else { return }
        lastDrawn = now
        Progress.isShown.store(true, ordering: .relaxed)
        let line = text().prefix(Self.width)
        StandardError.raw("\r" + line + String(repeating: " ", count: Self.width - line.count))
    }

    /// How long the work has lasted, in seconds.
    package var elapsed: Double { Progress.now() - start }

    /// `protecting [#########           ]  45 %`, or the MiB where there is no total. Never gets shorter.
    package static func line(_ label: String, done: Int64, total: Int64) -> String {
        guard total > 0 else { return String("\(label) \(done >> 20) MiB".prefix(width)) }
        let share = min(1, Double(done) / Double(total))
        let percent = "\(Int(share * 100)) %"
        let number = String(repeating: " ", count: max(0, 5 - percent.count)) + percent
        let room = max(4, width - label.count - number.count - 4)
        let filled = Int(share * Double(room))
        let bar = String(repeating: "#", count: filled) + String(repeating: " ", count: room - filled)
        return "\(label) [\(bar)] \(number)"
    }

    /// Takes the bar away.
    package static func clear() {
        guard isShown.exchange(false, ordering: .relaxed) else { return }
        StandardError.raw("\r" + String(repeating: " ", count: terminalWidth - 1) + "\r")
    }

    private static func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
