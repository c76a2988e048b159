import ProtectionFormat
import ProtectionKeys
import Testing

@testable import DataProtection

@Suite("Events made from the state of the ring, and the times when it is asked again")
struct ProtectedDataViewTests {
    private static let boot = [UInt8](repeating: 7, count: 16)
    private static let second: UInt64 = 1_000_000_000
    private let now = 100 * second

    private func event(_ kind: EventRecord.Kind, _ deadline: UInt64 = 0, boot: [UInt8] = boot) throws -> EventRecord {
        let uuid = try KeybagUUID(bytes: [UInt8](repeating: 1, count: 16))
        return EventRecord(kind: kind, keybag: uuid, counter: 1, deadline: deadline, bootID: boot)
    }

    private func look(
        _ view: inout ProtectedDataView, _ isAvailable: Bool?, _ event: EventRecord?, at now: UInt64? = nil
    ) -> (changes: [ProtectedDataView.Change], next: UInt64?) {
        view.look(isAvailable: isAvailable, event: event, now: now ?? self.now, bootID: Self.boot)
    }

    @Test("Nothing is told when nothing has changed", arguments: [true, false])
    func nothing(isAvailable: Bool) throws {
        var view = ProtectedDataView(isAvailable: isAvailable)
        for event in [nil, try event(.didBecomeAvailable), try event(.didBecomeUnavailable)] {
            let (changes, next) = look(&view, isAvailable, event)
            #expect(changes == [] && next == nil)
        }
    }

    @Test("A lock without a grace is both events at once; the same lock again is none")
    func lock() throws {
        var view = ProtectedDataView(isAvailable: true)
        let event = try event(.didBecomeUnavailable)
        #expect(
            look(&view, false, event).changes == [.willBecomeUnavailable(deadline: now), .didBecomeUnavailable])
        #expect(look(&view, false, event).changes == [])
        #expect(look(&view, true, event).changes == [.didBecomeAvailable])
    }

    @Test("A lock with a grace: first that it will be, then that it is")
    func grace() throws {
        var view = ProtectedDataView(isAvailable: true)
        let deadline = now + 10 * Self.second
        let event = try event(.willBecomeUnavailable, deadline)
        let (changes, next) = look(&view, true, event)
        #expect(changes == [.willBecomeUnavailable(deadline: deadline)] && next == deadline)
        #expect(look(&view, true, event).changes == [], "once")
        #expect(look(&view, false, event).changes == [.didBecomeUnavailable])
    }

    @Test("An armed lock that comes nearer is told again")
    func nearer() throws {
        var view = ProtectedDataView(isAvailable: true)
        _ = look(&view, true, try event(.willBecomeUnavailable, now + 10 * Self.second))
        let deadline = now + Self.second
        let (changes, next) = look(&view, true, try event(.willBecomeUnavailable, deadline))
        #expect(changes == [.willBecomeUnavailable(deadline: deadline)] && next == deadline)
    }

    @Test("A cancelled lock: available again, though it always was")
    func cancelled() throws {
        var view = ProtectedDataView(isAvailable: true)
        _ = look(&view, true, try event(.willBecomeUnavailable, now + 10 * Self.second))
        let (changes, next) = look(&view, true, try event(.didBecomeAvailable))
        #expect(changes == [.didBecomeAvailable] && next == nil)
    }

    @Test("A missed unlock is told before the lock that is armed since")
    func unlockedAndArmed() throws {
        var view = ProtectedDataView(isAvailable: false)
        let deadline = now + Self.second
        #expect(
            look(&view, true, try event(.willBecomeUnavailable, deadline)).changes
                == [.didBecomeAvailable, .willBecomeUnavailable(deadline: deadline)])
    }

    @Test("Nobody did what was due: the ring is asked for five seconds more, until the kernel has done it")
    func overdue() throws {
        var view = ProtectedDataView(isAvailable: true)
        let event = try event(.willBecomeUnavailable, now)
        _ = look(&view, true, event)
        for passed in [0, 2 * Self.second, 5 * Self.second] {
            let (changes, next) = look(&view, true, event, at: now + passed)
            #expect(changes == [])
            let wait = try #require(next) - now - passed
            #expect(wait > 0 && wait < Self.second)
        }
        #expect(look(&view, false, event, at: now + 3 * Self.second).changes == [.didBecomeUnavailable])
    }

    @Test("Nobody said that an armed lock was cancelled: the keys are still there long after it")
    func silentlyCancelled() throws {
        var view = ProtectedDataView(isAvailable: true)
        let event = try event(.willBecomeUnavailable, now)
        _ = look(&view, true, event)
        let (changes, next) = look(&view, true, event, at: now + 6 * Self.second)
        #expect(changes == [.didBecomeAvailable] && next == nil)
    }

    @Test("The end of a limited unlock is looked for, because nobody announces it")
    func limited() throws {
        var view = ProtectedDataView(isAvailable: false)
        let end = now + 10 * Self.second
        let event = try event(.didBecomeAvailable, end)
        let (changes, next) = look(&view, true, event)
        #expect(changes == [.didBecomeAvailable] && next == end)
        #expect(try #require(look(&view, true, event, at: end).next) > end)
        #expect(
            look(&view, false, event, at: end).changes == [
                .willBecomeUnavailable(deadline: end), .didBecomeUnavailable,
            ])
    }

    @Test("A deadline of another boot is none")
    func otherBoot() throws {
        var view = ProtectedDataView(isAvailable: true)
        let other = [UInt8](repeating: 8, count: 16)
        let (changes, next) = look(&view, true, try event(.willBecomeUnavailable, now + Self.second, boot: other))
        #expect(changes == [] && next == nil)
    }

    @Test("Nothing that a file can say is too much", arguments: [UInt64.max, 1])
    func extremes(deadline: UInt64) throws {
        for kind in [EventRecord.Kind.willBecomeUnavailable, .didBecomeUnavailable, .didBecomeAvailable] {
            var view = ProtectedDataView(isAvailable: true)
            _ = look(&view, true, try event(kind, deadline))
            #expect(look(&view, false, try event(kind, deadline)).changes.last == .didBecomeUnavailable)
        }
    }

    @Test("A ring that cannot be asked has not changed, and is asked again")
    func unknown() throws {
        var view = ProtectedDataView(isAvailable: true)
        let (changes, next) = look(&view, nil, try event(.didBecomeUnavailable))
        #expect(changes == [] && next == now + Self.second)
    }
}
