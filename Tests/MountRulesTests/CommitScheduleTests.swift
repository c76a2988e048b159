import MountRules
import Testing

@Suite("When writes are committed that nobody has synchronised")
struct CommitScheduleTests {
    private static let second: UInt64 = 1_000_000_000
    private var schedule = CommitSchedule()

    @Test("A second after the last write")
    mutating func quiet() {
        #expect(schedule.wrote(at: 7) == Self.second)
        #expect(schedule.wrote(at: Self.second / 2) == nil)
        #expect(schedule.due(at: Self.second + 7) == .wait(Self.second / 2 - 7))
        #expect(schedule.due(at: Self.second * 3 / 2) == .commit)
        schedule.committed()
        #expect(schedule.wrote(at: 9 * Self.second) == Self.second)
    }

    @Test("Five seconds after the first write, however often there are others")
    mutating func steady() {
        var now: UInt64 = 0
        var wake = schedule.wrote(at: now)
        var step = CommitSchedule.Step.rest
        while step != .commit, now < 60 * Self.second {
            now += Self.second / 10
            _ = schedule.wrote(at: now)
            guard let time = wake, now >= time else { continue }
            step = schedule.due(at: now)
            if case .wait(let more) = step { wake = now + more }
        }
        #expect(now == 5 * Self.second)
    }

    @Test("Not at all if that has happened, and the next write begins anew")
    mutating func committed() {
        #expect(schedule.wrote(at: 0) == Self.second)
        schedule.committed()
        #expect(schedule.due(at: Self.second) == .rest)
        #expect(schedule.wrote(at: 2 * Self.second) == Self.second)
        // A commit that has failed is tried again.
        #expect(schedule.due(at: 3 * Self.second) == .commit)
        #expect(schedule.wrote(at: 4 * Self.second) == Self.second)
    }
}
