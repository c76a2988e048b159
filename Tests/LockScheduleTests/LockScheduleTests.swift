import Foundation
import LockSchedule
import TestEffort
import Testing

@Suite("When the keys must go")
struct LockScheduleTests {
    typealias Limits = LockSchedule.Limits

    private func actions(_ limits: Limits, _ events: (LockSchedule.Event, Int)...) -> [[LockSchedule.Action]] {
        var schedule = LockSchedule(limits: limits)
        return events.map { schedule.handle($0.0, at: .seconds($0.1)) }
    }

    @Test("A screen lock arms, an unlock in time cancels, the end of the grace locks")
    func grace() {
        #expect(
            actions(Limits(grace: 10), (.sessionLocked, 100), (.sessionUnlocked, 103), (.timer, 110)) == [
                [.arm(seconds: 10), .setTimer(.seconds(110))], [.cancel, .setTimer(nil)], [.setTimer(nil)],
            ])
        #expect(
            actions(Limits(grace: 10), (.sessionLocked, 100), (.sessionLocked, 104), (.timer, 110)) == [
                [.arm(seconds: 10), .setTimer(.seconds(110))], [.arm(seconds: 10), .setTimer(.seconds(110))],
                [.finish, .setTimer(nil)],
            ])
    }

    @Test("Without grace a screen lock locks at once")
    func noGrace() {
        #expect(actions(Limits(grace: 0), (.sessionLocked, 100)) == [[.lockNow, .setTimer(nil)]])
    }

    @Test("Before sleep the keys go, and then the inhibitor; also in the middle of a grace")
    func sleep() {
        #expect(
            actions(Limits(grace: 10), (.sessionLocked, 100), (.willSleep, 101), (.woke, 5000)) == [
                [.arm(seconds: 10), .setTimer(.seconds(110))], [.lockNow, .releaseInhibitor, .setTimer(nil)],
                [.setTimer(nil)],
            ])
    }

    @Test(
        "A lock that fails is tried again after a second, then after twice as long, 8 s at most, and the inhibitor is not released before"
    )
    func failure() {
        #expect(
            actions(Limits(grace: 10), (.willSleep, 100), (.lockFailed, 100), (.timer, 101)) == [
                [.lockNow, .releaseInhibitor, .setTimer(nil)], [.setTimer(.seconds(101))],
                [.lockNow, .releaseInhibitor, .setTimer(nil)],
            ])
        var schedule = LockSchedule(limits: Limits(grace: 0))
        var now = Duration.seconds(100)
        var pauses: [Duration] = []
        _ = schedule.handle(.sessionLocked, at: now)
        for _ in 0..<9 {
            guard case .setTimer(let time?)? = schedule.handle(.lockFailed, at: now).first else { break }
            pauses.append(time - now)
            now = time
            #expect(schedule.handle(.timer, at: now).first == .lockNow)
        }
        #expect(pauses == [1, 2, 4, 8, 8, 8, 8, 8, 8].map { .seconds($0) })
        _ = schedule.handle(.lockFailed, at: now)
        _ = schedule.handle(.sessionLocked, at: now)
        #expect(schedule.handle(.lockFailed, at: now) == [.setTimer(now + .seconds(1))], "another lock begins anew")
    }

    @Test("A lock that failed is owed until it is tried again, or a passcode is typed after it")
    func owed() {
        var schedule = LockSchedule(limits: Limits(grace: 0))
        #expect(!schedule.owesLock)
        _ = schedule.handle(.sessionLocked, at: .seconds(100))
        #expect(!schedule.owesLock)
        _ = schedule.handle(.lockFailed, at: .seconds(100))
        #expect(schedule.owesLock)
        _ = schedule.handle(.sessionUnlocked, at: .seconds(100))
        #expect(schedule.owesLock)
        var unlocked = schedule
        _ = unlocked.handle(.unlockedByHand(at: .seconds(101)), at: .seconds(101))
        #expect(!unlocked.owesLock)
        _ = schedule.handle(.timer, at: .seconds(101))
        #expect(!schedule.owesLock)
    }

    @Test("A lock that is due while the machine sleeps is done when it wakes")
    func dueInSleep() {
        #expect(
            actions(Limits(grace: 10, longest: 60), (.unlockedByHand(at: .seconds(90)), 100), (.woke, 150)) == [
                [.setTimer(.seconds(150))], [.lockNow, .setTimer(nil)],
            ])
    }

    @Test("Absence and age of the keys have limits; presence ends the one, a passcode begins the other anew")
    func limits() {
        #expect(
            actions(
                Limits(grace: 10, idle: 60), (.idle, 100), (.idle, 130), (.active, 140), (.idle, 150), (.timer, 210))
                == [
                    [.setTimer(.seconds(160))], [.setTimer(.seconds(160))], [.setTimer(nil)],
                    [.setTimer(.seconds(210))],
                    [.lockNow, .setTimer(nil)],
                ])
        #expect(
            actions(
                Limits(grace: 10, longest: 60), (.unlockedByHand(at: .seconds(100)), 100),
                (.unlockedByHand(at: .seconds(150)), 151), (.sessionUnlocked, 160), (.timer, 210))
                == [
                    [.setTimer(.seconds(160))], [.setTimer(.seconds(210))], [], [.lockNow, .setTimer(nil)],
                ])
    }

    @Test("A passcode that was typed before the screen was locked, and is heard of later, un-arms nothing")
    func lateNews() {
        #expect(
            actions(Limits(grace: 10), (.sessionLocked, 100), (.unlockedByHand(at: .seconds(99)), 101), (.timer, 110))
                == [
                    [.arm(seconds: 10), .setTimer(.seconds(110))], [.setTimer(.seconds(110))],
                    [.finish, .setTimer(nil)],
                ])
    }

    @Test(
        "Every order of events: never late, never un-armed but by an unlock, never asleep with keys",
        arguments: [
            Limits(grace: 10), Limits(grace: 0), Limits(grace: 2, idle: 3, longest: 4),
            Limits(grace: 3, idle: 1, longest: 2),
        ])
    func everyOrder(limits: Limits) {
        let depth = Effort.level == 100 ? 6 : 5
        var count = 0
        var failure: ([World.Step], [String])?
        func descend(_ world: World, _ steps: [World.Step]) {
            for step in World.Step.allCases where failure == nil {
                var next = world
                next.take(step)
                count += 1
                if !next.violations.isEmpty { failure = (steps + [step], next.violations) }
                if steps.count + 1 < depth { descend(next, steps + [step]) }
            }
        }
        descend(World(limits: limits), [])
        #expect(failure == nil, "\(failure.map { "\($0.0): \($0.1)" } ?? "")")
        let choices = World.Step.allCases.count
        #expect(count >= (1...depth).reduce(0) { sum, length in sum + (0..<length).reduce(1) { n, _ in n * choices } })
    }
}
