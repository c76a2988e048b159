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
}
