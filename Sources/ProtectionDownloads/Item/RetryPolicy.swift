import TrustedHTTP

/// When a download is tried again. A decision without clock or chance: both are given.
public struct RetryPolicy: Hashable, Sendable, Codable {
    /// Failures in a row without a byte that was new, after which it is given up.
    public var maximumFailures = 30
    /// Seconds since it was added, or resumed by hand, after which it is given up; `.max`: never for this. Time that is spent waiting
    /// for an unlock counts.
    ///
    /// From a day on it takes ``patience`` failures in a row, too: neither a clock that is wrong for a moment gives up everything,
    /// nor a machine that was off for a month and has no network yet.
    public var maximumSeconds: Int64 = 14 * 86_400
    /// See ``maximumSeconds``.
    public static let patience = 8
    /// Seconds to wait after the first failure; twice as long after each further one.
    public var firstDelay: Double = 1
    /// Seconds that are never exceeded, but by what a server asks for. More than a year counts as a year.
    public var longestDelay: Double = 600

    /// The policy of a download that names none.
    public init() {}

    /// What ``decide(_:failures:began:now:jitter:)`` never goes beyond, in milliseconds.
    var longestWait: Double { max(Double(maximumSeconds), longestDelay) * 1000 }

    /// Why a try has ended.
    public enum Failure: Hashable, Sendable {
        /// The server said so, and perhaps when to come again.
        case status(Int, retryAfter: String?)
        /// No whole response came.
        case connection(isTransient: Bool)
        /// What was begun is not what is there now: all over again.
        case resourceChanged
    }

    /// What is to be done.
    public enum Decision: Hashable, Sendable {
        /// Try again then; milliseconds since 1970.
        case retry(at: Int64)
        /// Waiting would not help.
        case fail
        /// It was tried often or long enough.
        case giveUp
    }

    /// Decides.
    ///
    /// - Parameters:
    ///   - failures: in a row, this one included, so at least 1.
    ///   - began: when it was added or resumed, and `now`: milliseconds since 1970.
    ///   - jitter: in 0...1, by chance: clients that lost one server together must not come back together.
    public func decide(
        _ failure: Failure, failures: Int, began: Int64, now: Int64, jitter: Double
    ) -> Decision {
        guard isWorthRetrying(failure) else { return .fail }
        guard failures < maximumFailures else { return .giveUp }
        let exponent = Double(min(max(failures, 1) - 1, 40))
        var delay = min(firstDelay * pow(2, exponent), longestDelay)
        delay *= 0.5 + 0.5 * min(max(jitter, 0), 1)
        if case .status(_, let text?) = failure, let asked = Self.seconds(retryAfter: text, now: now / 1000) {
            // As long as that nobody waits, whatever the time is.
            if asked > maximumSeconds { return .giveUp }
            delay = max(delay, Double(asked))
        }
        // Whatever the caller has set: no number is too large for what follows, and what is none is 0.
        let next = now + Int64(max(0, min(delay, Double(Self.year))) * 1000)
        // When it began is in clear in the list, and may be any number.
        let isLate = Double(next) - Double(began) > Double(maximumSeconds) * 1000
        return isLate && (failures >= Self.patience || maximumSeconds < 86_400) ? .giveUp : .retry(at: next)
    }

    private func isWorthRetrying(_ failure: Failure) -> Bool {
        switch failure {
        // RFC 9110 §15.5.9, §15.6; RFC 6585 §4; RFC 8470 §5.2. 501 and 505 say: never.
        case .status(let status, _): [408, 425, 429, 500, 502, 503, 504].contains(status)
        case .connection(let isTransient): isTransient
        case .resourceChanged: true
        }
    }

    /// In seconds.
    private static let year: Int64 = 366 * 86_400

    /// Retry-After, RFC 9110 §10.2.3: seconds from now, or a date; nil if it is neither. A year at most.
    static func seconds(retryAfter text: String, now: Int64) -> Int64? {
        if !text.isEmpty, text.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) { return min(Int64(text) ?? year, year) }
        guard let date = HTTPDate.seconds(text) else { return nil }
        return min(max(date - now, 0), year)
    }
}

/// pow(3) for whole exponents.
private func pow(_ base: Double, _ exponent: Double) -> Double {
    var result = 1.0
    for _ in 0..<Int(exponent) { result *= base }
    return result
}
