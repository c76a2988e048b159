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
    /// A time as the keybag's files have it.
    package init(secondsSince1970 seconds: UInt64) { self.init(timeIntervalSince1970: Double(seconds)) }
}
