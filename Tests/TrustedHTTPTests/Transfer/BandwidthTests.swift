import FaultServer
import Foundation
import Synchronization
import Testing

@testable import TrustedHTTP

@Suite("Limits for the bandwidth")
struct BandwidthTests {
    private static let second: UInt64 = 1_000_000_000

    @Test(
        "In no time passes more than the rate, a tenth of a second's worth and one piece",
        arguments: [1, 16_384, 70_000])
    func bucket(piece: Int) {
        var bucket = BandwidthBucket(bytesPerSecond: 100_000)
        var (passed, now) = (0, 5 * Self.second)
        let begin = now
        while now < begin + 20 * Self.second {
            if let wait = bucket.wait(at: now) {
                #expect(wait > 0)
                now += wait
            } else {
                bucket.count(piece, at: now)
                passed += piece
            }
            let allowed = 100_000 * (Double(now - begin) / 1e9 + 0.1) + Double(piece)
            if Double(passed) > allowed { Issue.record("\(passed) bytes after \(now - begin) ns") }
        }
        // Nor is anything lost by waiting.
        #expect(passed > 1_950_000)
    }

    @Test("Unused bandwidth is not saved up, and a clock that stands still gives nothing")
    func idle() {
        var bucket = BandwidthBucket(bytesPerSecond: 1000)
        bucket.count(1100, at: 0)
        #expect(bucket.wait(at: 0) == Self.second + Self.second / 40)
        #expect(bucket.wait(at: Self.second) == Self.second / 40)
        #expect(bucket.wait(at: 3600 * Self.second) == nil)
        bucket.count(100, at: 3600 * Self.second)
        #expect(bucket.wait(at: 3600 * Self.second) != nil)
    }

    @Test("Transfers of several clients share one, from the first byte on")
    func shared() async throws {
        let server = try FaultServer()
        try server.answer("/limited", Answer(length: 300_000))
        let limit = BandwidthLimit(bytesPerSecond: 400_000)
        let ledger = Ledger(rate: 400_000, pieces: 4)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<2 {
                let client = HTTPClient()
                for _ in 0..<2 {
                    var request = try server.request("/limited")
                    request.sharedLimits = [limit]
                    group.addTask { [request] in
                        let response = try await client.transfer(request, to: ledger)
                        #expect(response.status == 200)
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(ledger.count == 1_200_000)
        #expect(ledger.excess == 0)
    }

    @Test("Bytes that are sent count, too")
    func upload() async throws {
        let server = try FaultServer()
        try server.answer("/up", Answer(status: 200, "ok"))
        let begin = Pace.now()
        var request = try server.request("/up")
        request.method = "PUT"
        (request.body, request.bandwidthLimit) = (BytesToSend(Answer.pattern(0..<600_000)), 400_000)
        let (response, _) = try await HTTPClient().send(request)
        #expect(response.status == 200)
        // Never an upper bound: the machine may be busy. libcurl asks for up to half a mebibyte at once.
        let least = 600_000.0 - 40_000 - Double(512 << 10)
        #expect(Double(Pace.now() - begin) / 1e9 * 400_000 >= least)
    }

    /// Counts what has come, and what of it had not been allowed to come yet.
    private final class Ledger: HTTPReceiver {
        private let begin = Pace.now()
        private let (rate, pieces): (Double, Int)
        private let state = Mutex((count: 0, excess: 0.0))

        /// - Parameter pieces: how many transfers there are, each of which may have one piece ahead of its time.
        init(rate: Double, pieces: Int) { (self.rate, self.pieces) = (rate, pieces) }

        var count: Int { state.withLock { $0.count } }
        var excess: Double { state.withLock { $0.excess } }

        func begin(_ response: HTTPResponse) {}
        func receive(_ bytes: UnsafeRawBufferPointer) {
            state.withLock { state in
                state.count += bytes.count
                let allowed = rate * (Double(Pace.now() - begin) / 1e9 + 0.1) + Double(pieces * LibCurl.largestPiece)
                state.excess = max(state.excess, Double(state.count) - allowed)
            }
        }
    }
}
