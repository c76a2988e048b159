import DurableFiles

/// A length of time as people type it: `90`, `90s`, `10m`, `2h`, `1d`.
package enum TimeSpan {
    /// In whole seconds, one at least; nil if it is none, or longer than the kernel's timeouts.
    package static func seconds(_ text: String) -> UInt32? {
        let units: [Character: UInt32] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let unit = text.last.flatMap { units[$0] }
        let digits = unit == nil ? text[...] : text.dropLast()
        guard digits.allSatisfy({ $0.isASCII && $0.isNumber }), let number = UInt32(digits) else { return nil }
        let (seconds, overflow) = number.multipliedReportingOverflow(by: unit ?? 1)
        // Two seconds more are what the kernel's own timeout needs.
        return !overflow && seconds > 0 && seconds < UInt32(Int32.max) ? seconds : nil
    }
}
