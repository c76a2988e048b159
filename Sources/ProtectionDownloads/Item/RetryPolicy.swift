import TrustedHTTP

/// When a download is tried again. A decision without clock or chance: both are given.
public struct RetryPolicy: Hashable, Sendable {
    /// Failures in a row without a byte that was new, after which it is given up.
    public var maximumFailures = 30
    /// How long after it was added, or resumed by hand, it is given up; nil: never for this. Time that is spent waiting for an unlock
    /// counts.
    ///
    /// From a day on it takes ``patience`` failures in a row, too: neither a clock that is wrong for a moment gives up everything,
    /// nor a machine that was off for a month and has no network yet.
    public var maximumTime: Duration? = .seconds(14 * 86_400)
    /// See ``maximumTime``.
    public static let patience = 8
    /// How long to wait after the first failure; twice as long after each further one.
    public var firstDelay = Duration.seconds(1)
    /// Never exceeded, but by what a server asks for. More than a year counts as a year.
    public var longestDelay = Duration.seconds(600)

    /// The policy of a download that names none.
    public init() {}

    /// What ``decide(_:failures:began:now:jitter:)`` never goes beyond, in milliseconds.
    var longestWait: Double { max(maximumSeconds, longestDelay / .seconds(1)) * 1000 }

    private var maximumSeconds: Double { maximumTime.map { $0 / .seconds(1) } ?? .infinity }

    /// Why a try has ended.
    enum Failure: Hashable, Sendable {
        /// The server said so, and perhaps when to come again.
        case status(Int, retryAfter: String?)
        /// No whole response came.
        case connection(isTransient: Bool)
        /// What was begun is not what is there now: all over again.
        case resourceChanged
    }

    /// What is to be done.
    enum Decision: Hashable, Sendable {
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
    func decide(_ failure: Failure, failures: Int, began: Int64, now: Int64, jitter: Double) -> Decision {
        guard isWorthRetrying(failure) else { return .fail }
        guard failures < maximumFailures else { return .giveUp }
        let exponent = Double(min(max(failures, 1) - 1, 40))
        var delay = min(firstDelay / .seconds(1) * pow(2, exponent), longestDelay / .seconds(1))
        delay *= 0.5 + 0.5 * min(max(jitter, 0), 1)
        if case .status(_, let text?) = failure, let asked = Self.seconds(retryAfter: text, now: now / 1000) {
            // As long as that nobody waits, whatever the time is.
            if Double(asked) > maximumSeconds { return .giveUp }
            delay = max(delay, Double(asked))
        }
        // For any value that the caller may have set: no number is too large for the next step.
        let next = now + Int64(max(0, min(delay, Double(Self.year))) * 1000)
        // When it began is in clear in the list, and may be any number.
        let isLate = Double(next) - Double(began) > maximumSeconds * 1000
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

/// As the list of downloads has it, FORMAT.md §2.14: times are seconds.
extension RetryPolicy: Codable {
    private enum CodingKeys: CodingKey {
        case maximumFailures, maximumSeconds, firstDelay, longestDelay
    }

    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        maximumFailures = try values.decode(Int.self, forKey: .maximumFailures)
        let seconds = try values.decode(Int64.self, forKey: .maximumSeconds)
        maximumTime = seconds == .max ? nil : .seconds(seconds)
        firstDelay = Self.delay(try values.decode(Double.self, forKey: .firstDelay))
        longestDelay = Self.delay(try values.decode(Double.self, forKey: .longestDelay))
    }

    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(maximumFailures, forKey: .maximumFailures)
        try values.encode(maximumTime?.components.seconds ?? .max, forKey: .maximumSeconds)
        try values.encode(firstDelay / .seconds(1), forKey: .firstDelay)
        try values.encode(longestDelay / .seconds(1), forKey: .longestDelay)
    }

    /// More than a year counts as a year: no number is too large.
    private static func delay(_ seconds: Double) -> Duration { .seconds(min(max(0, seconds), Double(year))) }
}

/// pow(3) for whole exponents.
private func pow(_ base: Double, _ exponent: Double) -> Double {
    var result = 1.0
    for _ in 0..<Int(exponent) { result *= base }
    return result
}
