import Foundation
import Testing
import TrustedHTTP

@testable import ProtectionDownloads

@Suite struct RetryPolicyTests {
    private let policy = RetryPolicy()

    private func delay(_ failure: RetryPolicy.Failure, _ failures: Int, jitter: Double = 1) -> Int64? {
        guard case .retry(let at) = policy.decide(failure, failures: failures, began: 0, now: 1000, jitter: jitter)
        else { return nil }
        return at - 1000
    }

    @Test func waitsTwiceAsLongEachTime() {
        let broken = RetryPolicy.Failure.connection(isTransient: true)
        #expect((1...5).map { delay(broken, $0) } == [1000, 2000, 4000, 8000, 16_000])
        #expect(delay(broken, 12) == 600_000)
        #expect(delay(broken, 29) == 600_000)
        #expect(delay(broken, 3, jitter: 0) == 2000)
        #expect(delay(broken, 3, jitter: 0.5) == 3000)
        #expect(delay(broken, 3, jitter: 7) == 4000)
    }

    @Test func givesUp() {
        let broken = RetryPolicy.Failure.connection(isTransient: true)
        #expect(policy.decide(broken, failures: 30, began: 0, now: 0, jitter: 1) == .giveUp)
        let fortnight: Int64 = 14 * 86_400_000
        #expect(policy.decide(broken, failures: 8, began: 0, now: fortnight, jitter: 1) == .giveUp)
        #expect(
            policy.decide(broken, failures: 8, began: 0, now: fortnight - 128_000, jitter: 1) == .retry(at: fortnight))
        #expect(policy.decide(broken, failures: 8, began: .min, now: fortnight, jitter: 1) == .giveUp)
        var hasty = policy
        hasty.maximumTime = .seconds(60)
        #expect(hasty.decide(broken, failures: 1, began: 0, now: 60_000, jitter: 1) == .giveUp)
        #expect(hasty.decide(broken, failures: 1, began: 0, now: 59_000, jitter: 1) == .retry(at: 60_000))
        // The clock alone gives nothing up: it may be wrong, and the machine may have been off.
        for failures in 1...7 {
            guard case .retry = policy.decide(broken, failures: failures, began: 0, now: 9 * fortnight, jitter: 1)
            else {
                Issue.record("given up after \(failures) failures")
                continue
            }
        }
        #expect(
            policy.decide(.status(503, retryAfter: "2000000"), failures: 1, began: 0, now: 0, jitter: 1) == .giveUp)
    }

    /// Numbers of an application, which outlive it in the list: a trap would come again at each start.
    @Test func noNumberIsTooLarge() {
        let broken = RetryPolicy.Failure.connection(isTransient: true)
        var policy = RetryPolicy()
        policy.maximumTime = nil
        #expect(policy.decide(broken, failures: 1, began: 0, now: 1 << 53, jitter: 1) == .retry(at: 1 << 53 + 1000))
        policy.maximumTime = .seconds(Int64.min)
        #expect(policy.decide(broken, failures: 1, began: 0, now: 0, jitter: 1) == .giveUp)
        policy.maximumTime = nil
        let year: Int64 = 366 * 86_400_000
        for (first, longest, delay) in [
            (.seconds(Int64.max), .seconds(Int64.max), year), (.zero, .seconds(600), 0),
            (.seconds(-5), .seconds(-5), 0),
        ] as [(Duration, Duration, Int64)] {
            (policy.firstDelay, policy.longestDelay) = (first, longest)
            #expect(
                policy.decide(broken, failures: 1, began: 0, now: 0, jitter: 1) == .retry(at: delay),
                "\(first) \(longest)")
        }
    }

    @Test("A list keeps the policy in seconds, and no number in it is too large")
    func stored() throws {
        var policy = RetryPolicy()
        (policy.maximumTime, policy.firstDelay) = (nil, .milliseconds(10))
        let text = String(decoding: try JSONEncoder().encode(policy), as: UTF8.self)
        for part in ["\"maximumSeconds\":9223372036854775807", "\"firstDelay\":0.01", "\"longestDelay\":600"] {
            #expect(text.contains(part), "\(text)")
        }
        #expect(try JSONDecoder().decode(RetryPolicy.self, from: Data(text.utf8)) == policy)
        let huge = #"""
            {"maximumFailures":30,"maximumSeconds":-9223372036854775808,"firstDelay":1e300,"longestDelay":-1e300}
            """#
        let read = try JSONDecoder().decode(RetryPolicy.self, from: Data(huge.utf8))
        #expect(read.maximumTime == .seconds(Int64.min))
        #expect(read.firstDelay == .seconds(366 * 86_400) && read.longestDelay == .zero)
    }

    @Test func whatWaitingChanges() {
        for status in [408, 425, 429, 500, 502, 503, 504] {
            #expect(delay(.status(status, retryAfter: nil), 1) == 1000, "\(status)")
        }
        for status in [400, 401, 403, 404, 405, 407, 410, 416, 451, 501, 505, 304, 204] {
            #expect(policy.decide(.status(status, retryAfter: "1"), failures: 1, began: 0, now: 0, jitter: 1) == .fail)
        }
        #expect(policy.decide(.connection(isTransient: false), failures: 1, began: 0, now: 0, jitter: 1) == .fail)
        #expect(delay(.resourceChanged, 1) == 1000)
    }

    @Test func theServerMayAskForMore() {
        #expect(delay(.status(429, retryAfter: "120"), 1) == 120_000)
        #expect(delay(.status(503, retryAfter: "0"), 1) == 1000)
        #expect(delay(.status(503, retryAfter: "-5"), 1) == 1000)
        #expect(delay(.status(503, retryAfter: "soon"), 1) == 1000)
        // Second 784111777 of the epoch.
        let text = "Sun, 06 Nov 1994 08:49:37 GMT"
        #expect(RetryPolicy.seconds(retryAfter: text, now: 784_111_700) == 77)
        #expect(RetryPolicy.seconds(retryAfter: text, now: 784_111_800) == 0)
        #expect(RetryPolicy.seconds(retryAfter: "99999999999999999999999", now: 0) == 31_622_400)
    }

    @Test(arguments: [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
        ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600), ("Sat, 31 Dec 2033 23:59:60 GMT", 2_019_686_400),
        ("Friday, 01-Jan-10 00:00:00 GMT", 1_262_304_000),
    ]) func dates(_ text: String, _ seconds: Int64) {
        #expect(HTTPDate.seconds(text) == seconds)
        #expect(RetryPolicy.seconds(retryAfter: text, now: seconds - 5) == 5)
    }

    @Test(arguments: [
        "", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov -994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
        "a b c d e f", "Sunday, 06--94 08:49:37 GMT", "soon", "-5", "1.5", "120 s", "12:00:00",
    ]) func noDates(_ text: String) {
        #expect(HTTPDate.seconds(text) == nil)
        #expect(RetryPolicy.seconds(retryAfter: text, now: 0) == nil)
    }

    /// Seconds are no date, however long the number is.
    @Test func secondsThatLookLikeADate() {
        #expect(HTTPDate.seconds("20040912") != nil)
        #expect(RetryPolicy.seconds(retryAfter: "20040912", now: 0) == 20_040_912)
    }
}
