/// How long to wait after wrong passcodes. FORMAT.md §2.3; Apple Platform Security, "Passcodes and passwords".
package enum AttemptDelay {
    /// Seconds after `failures` wrong passcodes in a row.
    package static func seconds(afterFailures failures: UInt32) -> UInt64 {
        switch failures {
        case 0...4: 0
        case 5: 60
        case 6: 300
        case 7: 900
        default: 3600
        }
    }

    /// What is left of the delay, in whole seconds, rounded up.
    ///
    /// - Parameter now: boot time in nanoseconds, of the boot that the record belongs to.
    package static func remaining(of record: AttemptRecord, now: UInt64) -> Int {
        let delay = seconds(afterFailures: record.failures) * 1_000_000_000
        let elapsed = now - min(record.bootTime, now)  // a time in the future counts as now
        return elapsed >= delay ? 0 : Int((delay - elapsed + 999_999_999) / 1_000_000_000)
    }
}
