import ProtectionFormat
import ProtectionKeys
import Testing

@testable import DataProtection

@Suite("The delay after wrong passcodes")
struct AttemptDelayTests {
    private static let second: UInt64 = 1_000_000_000
    private static let uuid = try! KeybagUUID(bytes: [UInt8](repeating: 1, count: 16))

    @Test(
        "Is none up to the 4th, then 1, 5, 15 and 60 minutes",
        arguments: [
            (0, 0), (1, 0), (4, 0), (5, 60), (6, 300), (7, 900), (8, 3600), (9, 3600), (1_000_000, 3600),
            (UInt32.max, 3600),
        ] as [(UInt32, UInt64)])
    func table(failures: UInt32, seconds: UInt64) {
        #expect(AttemptDelay.seconds(afterFailures: failures) == seconds)
    }

    @Test(
        "Runs by boot time from the last attempt, and is told in whole seconds, rounded up",
        arguments: [
            (0, 60), (1, 60), (second - 1, 60), (second, 59), (59 * second, 1), (60 * second - 1, 1),
            (60 * second, 0), (60 * second + 1, 0), (1_000_000 * second, 0),
        ] as [(UInt64, Int)])
    func remaining(elapsed: UInt64, left: Int) {
        let record = record(failures: 5, bootTime: 77 * Self.second)
        #expect(AttemptDelay.remaining(of: record, now: 77 * Self.second + elapsed) == left)
    }

    @Test("Does not run after fewer than 5")
    func none() {
        for failures in 0...4 as ClosedRange<UInt32> {
            #expect(AttemptDelay.remaining(of: record(failures: failures, bootTime: 5), now: 5) == 0)
        }
    }

    @Test("A time in the future counts as now", arguments: [1, second, .max - 1, UInt64.max] as [UInt64])
    func future(ahead: UInt64) {
        let now = ahead > UInt64.max / 2 ? 0 : 10 * Self.second
        #expect(AttemptDelay.remaining(of: record(failures: 6, bootTime: now + ahead), now: now) == 300)
    }

    private func record(failures: UInt32, bootTime: UInt64) -> AttemptRecord {
        AttemptRecord(
            sequence: 1, keybag: Self.uuid, failures: failures, guessTag: nil, bootTime: bootTime,
            bootID: [UInt8](repeating: 2, count: 16))
    }
}
