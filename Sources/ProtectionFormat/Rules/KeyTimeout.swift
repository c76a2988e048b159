/// What keyctl_set_timeout(3) is to be told, so that a key is never gone before its time, and at most a second after it.
///
/// The kernel adds the number to the whole seconds of the wall clock, and lets the key expire when that second begins: a
/// timeout of 10 s ends after nine to ten.
package enum KeyTimeout {
    /// - Parameters:
    ///   - left: for how long the key is to stay, in nanoseconds.
    ///   - wallTime: CLOCK_REALTIME in nanoseconds.
    /// - Returns: seconds, at least 1: 0 would be *for ever*.
    package static func seconds(for left: UInt64, wallTime: UInt64) -> UInt32 {
        let second: UInt64 = 1_000_000_000
        let (end, isTooLate) = (wallTime % second).addingReportingOverflow(left)
        let seconds = isTooLate ? .max : end / second + (end % second == 0 ? 0 : 1)
        return UInt32(clamping: max(seconds, 1))
    }

    /// When to see whether a key that is there has expired. The kernel removes it within a second after its end.
    ///
    /// - Parameters:
    ///   - ends: when it is to go, in nanoseconds of CLOCK_BOOTTIME; 0: never. One that is long past was for another key. Any numbers: nobody
    ///     authenticates them.
    ///   - now: of the same clock.
    /// - Returns: nil: nothing will happen by itself.
    package static func nextLook(_ ends: [UInt64], now: UInt64) -> UInt64? {
        let (patience, pause): (UInt64, UInt64) = (5_000_000_000, 200_000_000)
        return ends.filter { $0 != 0 && (now < $0 || now - $0 < patience) }.min().map { max($0, now + pause) }
    }
}
