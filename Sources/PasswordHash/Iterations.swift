import Glibc
import ProtectionKeys

/// How many rounds of PBKDF2 a password costs: 10,000 to 100,000,000.
///
/// There is no value outside of these bounds, so nothing in this module can be told to do with less, nor be kept busy for ever.
public struct Iterations: Hashable, Comparable, Sendable {
    /// What can be read and written at all. Under 10,000 a stolen hash is no better than the password (the least that
    /// NIST SP 800-63B §5.1.1.2 names); 10^8 take about a minute (`protectfs password hash --iterations 100000000`).
    public static let allowed = 10_000...100_000_000
    /// What servers should store: 600,000 (OWASP Password Storage Cheat Sheet, PBKDF2-HMAC-SHA256).
    public static let recommended = Iterations(unchecked: 600_000)

    /// The number.
    public let count: Int

    /// - Throws: ``PasswordError/iterationsOutOfRange(_:allowed:)``.
    public init(_ count: Int) throws(PasswordError) {
        guard Self.allowed.contains(count) else { throw .iterationsOutOfRange(count, allowed: Self.allowed) }
        self.count = count
    }

    private init(unchecked count: Int) { self.count = count }

    /// As many as take 90 ms on this machine, the middle of 80 to 100 ms; measured now, which takes about as long.
    ///
    /// It is the time that this thread works which counts, so that a busy machine gives no weaker hashes than an idle one.
    /// Two measurements differ by a few percent. Measure once, and keep the number: both sides of a client key must have the same one.
    ///
    /// - Parameter least: no fewer than these, however slow the machine is.
    public static func calibrated(least: Iterations? = nil) throws(PasswordError) -> Iterations {
        do throws(KeyError) {
            let count = try PBKDF2.iterations(taking: .milliseconds(90)) { work throws(KeyError) in
                let start = worked()
                try work()
                return worked() - start
            }
            return measured(count, least: least)
        } catch {
            throw .cryptography(error)
        }
    }

    /// How long this thread has worked. The corresponding C call is `clock_gettime` with CLOCK_THREAD_CPUTIME_ID.
    private static func worked() -> Duration {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// What a measurement comes to within the bounds.
    static func measured(_ count: Int, least: Iterations?) -> Iterations {
        let lower = least?.count ?? allowed.lowerBound
        return Iterations(unchecked: min(max(count, lower), allowed.upperBound))
    }

    public static func < (a: Iterations, b: Iterations) -> Bool { a.count < b.count }
}
