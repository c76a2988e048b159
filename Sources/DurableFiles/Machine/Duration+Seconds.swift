package import FoundationEssentials

extension Duration {
    /// Seconds, with parts of one.
    package var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }

    /// Seconds; a part of one counts as a whole one, and what is negative as none.
    package var wholeSeconds: Int64 {
        max(0, components.seconds + (components.attoseconds > 0 ? 1 : 0))
    }
}

extension Date {
    /// A time as the keybag's files have it. Nobody authenticates some of these files, so a number that no clock shows counts as
    /// `distantFuture`: dates far beyond it crash calendars and formatters.
    package init(secondsSince1970 seconds: UInt64) {
        self = min(Date(timeIntervalSince1970: Double(seconds)), .distantFuture)
    }
}

extension FixedWidthInteger {
    /// The whole part of `value`, or the nearest number that there is; 0 for what is no number. `Int(value)` would trap instead.
    package init(clamping value: Double) {
        self = Self(exactly: value.rounded(.towardZero)) ?? (value.isNaN ? 0 : value < 0 ? .min : .max)
    }
}
