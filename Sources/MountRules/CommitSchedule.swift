/// When writes that nobody has asked to commit are committed: a second after the last of them, and five seconds after the first at the latest.
/// No clock and no I/O: times are nanoseconds of any clock.
package struct CommitSchedule: Sendable {
    /// In nanoseconds.
    package static let quiet: UInt64 = 1_000_000_000
    /// In nanoseconds.
    package static let longest: UInt64 = 5_000_000_000

    private var first: UInt64?
    private var last: UInt64 = 0
    /// Whether somebody has been told to come back.
    private var isAwaited = false

    package init() {}

    /// Something was written.
    ///
    /// - Returns: after how many nanoseconds to call ``due(at:)``; nil if that is to happen anyway.
    package mutating func wrote(at now: UInt64) -> UInt64? {
        if first == nil { first = now }
        last = now
        guard !isAwaited else { return nil }
        isAwaited = true
        return Self.quiet
    }

    /// Everything was committed.
    package mutating func committed() { first = nil }

    /// What to do now.
    package enum Step: Equatable, Sendable {
        /// Nothing, and nobody comes back before the next write.
        case rest
        case commit
        /// Come back after that many nanoseconds.
        case wait(UInt64)
    }

    /// The time that was announced has come.
    package mutating func due(at now: UInt64) -> Step {
        guard let first else {
            isAwaited = false
            return .rest
        }
        let time = min(last + Self.quiet, first + Self.longest)
        if now < time { return .wait(time - now) }
        isAwaited = false
        return .commit
    }
}
