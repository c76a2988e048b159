import DataProtection

/// How fast work goes, by the last ten seconds of it, and how long the rest takes at that speed.
package struct ProgressRate {
    package typealias Instant = ContinuousClock.Instant

    /// What is counted.
    package enum Unit: String {
        case bytes
        case files = "file"
        case cells = "cell"
    }

    private let unit: Unit
    /// How much was done when, a quarter of a second apart at least.
    private var samples: [(time: Instant, done: UInt64)] = []

    package init(of unit: Unit) { self.unit = unit }

    /// `done` is how much has been done so far.
    package mutating func note(_ done: UInt64, at now: Instant = .now) {
        if samples.last.map({ now - $0.time >= .milliseconds(250) }) ?? true { samples.append((now, done)) }
        samples.removeAll { now - $0.time > .seconds(10) }
    }

    /// Nothing moves any more; the speed of before says nothing about what comes.
    package mutating func reset() { samples = [] }

    /// `  2.0 MiB/s  3 s left`, to stand behind a number; without the time where `total` is not known; "" before the first second.
    package func words(_ done: UInt64, of total: UInt64?, at now: Instant = .now) -> String {
        guard let first = samples.first, now - first.time >= .seconds(1), done >= first.done else { return "" }
        let rate = Double(done - first.done) / ((now - first.time) / .seconds(1))
        let amount = unit == .bytes ? spoken(bytes: UInt64(rate)) : spoken(UInt64(rate), unit.rawValue)
        let speed = "  \(amount)/s"
        guard let total else { return speed }
        let left = Double(total - min(done, total)) / rate
        return rate >= 1 && left < 1_000_000 ? "\(speed)  \(spoken(seconds: Int(left.rounded(.up)))) left" : speed
    }
}
