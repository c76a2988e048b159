import Glibc
import Synchronization

/// A bar on standard error for work that lasts: only on a terminal, only after a second, gone at the end.
///
/// Drawn with carriage returns and spaces alone, so that it goes on every terminal.
package final class Progress {
    private static let widest = 80
    /// Of a line, the `^C` that a terminal echoes behind it must not wrap.
    private static let echo = 3
    /// Columns of the line that stands there; 0 if none does.
    private static let shown = Atomic(0)

    private let label: String
    private let total: Int64
    private let start = ContinuousClock.now
    private var lastDrawn: ContinuousClock.Instant?
    private var rate: ProgressRate
    /// What was last shown, or would have been on a terminal.
    package private(set) var done: Int64 = 0
    private let isTerminal: Bool

    /// - Parameters:
    ///   - label: at most 12 characters.
    ///   - total: 0 if it is not known.
    ///   - unit: of the total, and of what is shown.
    ///   - isTyped: somebody types what is worked on, where the bar would stand.
    package init(_ label: String, total: Int64, of unit: ProgressRate.Unit = .bytes, isTyped: Bool = false) {
        isTerminal = isatty(2) == 1 && !isTyped
        (self.label, self.total, rate) = (label, total, ProgressRate(of: unit))
    }

    /// The bar goes.
    package func finish() { Progress.clear() }

    deinit { Progress.clear() }

    /// Runs one piece of the work, `size` long, which calls its argument with what it has done of that.
    package func during<R, E: Error>(_ size: Int64, _ body: ((Int64) -> Void) throws(E) -> R) throws(E) -> R {
        let before = done
        defer { show(before.adding(size: size)) }
        return try body { show(before.adding(size: $0)) }
    }

    /// `done` of the total is done.
    package func show(_ done: Int64) {
        self.done = done
        guard isTerminal else { return }
        rate.note(UInt64(max(0, done)))
        draw { Progress.line(label, done: done, total: total, rate, columns: $0) }
    }

    /// Text in the place of a bar; what does not fit is cut off.
    package func show(text: @autoclosure () -> String) {
        guard isTerminal else { return }
        draw { String(text().prefix($0)) }
    }

    /// How long the work has lasted, in seconds.
    package var elapsed: Double { (ContinuousClock.now - start) / .seconds(1) }

    /// At most ten times a second. `line` gets the number of columns that it may take.
    private func draw(_ line: (Int) -> String) {
        let now = ContinuousClock.now
        guard now - start > .seconds(1), lastDrawn.map({ now - $0 > .milliseconds(100) }) ?? true else { return }
        lastDrawn = now
        let line = line(max(0, min(ScreenSize.now.columns, Self.widest) - Self.echo))
        let rest = Progress.shown.exchange(line.count, ordering: .relaxed) - line.count
        StandardError.raw("\r" + line + String(repeating: " ", count: max(0, rest)))
    }

    /// `protecting [#########           ]  45 %  12.0 MiB/s  20 s left`, or the MiB where there is no total.
    package static func line(
        _ label: String, done: Int64, total: Int64, _ rate: ProgressRate, columns: Int,
        at now: ContinuousClock.Instant = .now
    ) -> String {
        let count = UInt64(max(0, done))
        guard total > 0 else {
            return String("\(label) \(done >> 20) MiB\(rate.words(count, of: nil, at: now))".prefix(columns))
        }
        return "\(label) "
            + bar(
                Double(done) / Double(total), details: rate.words(count, of: UInt64(total), at: now),
                columns: columns - label.count - 1)
    }

    /// `[####    ]  50 %` and behind it `details`, where the bar keeps room: as wide as `columns`. Only the share where there is no room for a bar.
    package static func bar(_ share: Double, details: String, columns: Int) -> String {
        let share = min(1, max(0, share))
        let percent = "\(Int(share * 100)) %"
        var number = String(repeating: " ", count: max(0, 6 - percent.count)) + percent
        if columns - number.count - details.count >= 12 { number += details }
        let room = columns - number.count - 2
        guard room >= 4 else { return number }
        let filled = Int(share * Double(room))
        return "[" + String(repeating: "#", count: filled) + String(repeating: " ", count: room - filled) + "]" + number
    }

    /// Takes the bar away.
    package static func clear() {
        let columns = shown.exchange(0, ordering: .relaxed)
        // The place of the echo too.
        if columns > 0 { StandardError.raw("\r" + String(repeating: " ", count: columns + echo - 1) + "\r") }
    }
}
