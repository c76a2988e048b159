import Testing

@testable import ProtectionDownloads

@Suite struct HostScheduleTests {
    private func item(
        _ number: UInt8, _ origin: String = "a", priority: Int = 0, notBefore: Int64 = 0
    ) -> HostSchedule.Item {
        let id = DownloadID(bytes: [UInt8](repeating: number, count: 16))!
        return .init(id: id, origin: origin, priority: priority, position: Int64(number), notBefore: notBefore)
    }

    private func begun(_ schedule: HostSchedule, _ waiting: [HostSchedule.Item], _ running: [HostSchedule.Item] = [])
        -> [UInt8]
    {
        schedule.plan(waiting: waiting, running: running, now: 10).begin.map { $0.bytes[0] }
    }

    @Test func soManyInAllAndWithOneServer() {
        let schedule = HostSchedule(total: 3, perHost: 2)
        let many = [item(1), item(2), item(3), item(4, "b"), item(5, "b")]
        #expect(begun(schedule, many) == [1, 2, 4])
        #expect(begun(schedule, many, [item(9)]) == [1, 4])
        #expect(begun(schedule, many, [item(9), item(8)]) == [4])
        #expect(begun(schedule, many, [item(9), item(8), item(7, "b")]) == [])
        #expect(begun(schedule, many, [item(9), item(8), item(7), item(6)]) == [])
    }

    /// None would be a list that waits for nothing, for ever.
    @Test(arguments: [0, -1, Int.min]) func oneAtLeast(_ count: Int) {
        #expect(begun(HostSchedule(total: count, perHost: count), [item(1), item(2)]) == [1])
    }

    @Test func theUrgentFirstThenTheOld() {
        let schedule = HostSchedule(total: 2, perHost: 2)
        #expect(begun(schedule, [item(3), item(1), item(2)]) == [1, 2])
        #expect(begun(schedule, [item(1), item(2, priority: 5), item(3, priority: 5)]) == [2, 3])
        #expect(begun(schedule, [item(1, priority: -1), item(2)]) == [2, 1])
    }

    @Test func notBeforeItsTime() {
        let schedule = HostSchedule(total: 1, perHost: 1)
        let plan = schedule.plan(
            waiting: [item(1, notBefore: 30), item(2, notBefore: 20), item(3, notBefore: 10)], running: [], now: 10)
        #expect(plan.begin.map { $0.bytes[0] } == [3])
        #expect(plan.askAgainAt == 20)
        #expect(schedule.plan(waiting: [], running: [], now: 10) == HostSchedule.Plan())
    }
}
