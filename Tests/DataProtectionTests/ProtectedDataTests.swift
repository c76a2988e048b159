import DataProtectionNotifications
import Foundation
import Testing

@testable import DataProtection

@Suite("Protected data: events of every lock and unlock")
struct ProtectedDataTests {
    /// The events without their deadlines.
    private enum Kind { case will, did, available }

    /// Reads a stream of events until it ends.
    private func read(_ keybag: Keybag, into heard: Heard<ProtectedDataEvent>) -> Task<Void, Never> {
        let events = keybag.protectedDataEvents
        return Task { for await event in events { heard.append(event) } }
    }

    private func kinds(_ events: [ProtectedDataEvent]) -> [Kind] {
        events.map { event in
            switch event {
            case .willBecomeUnavailable: .will
            case .didBecomeUnavailable: .did
            case .didBecomeAvailable: .available
            }
        }
    }

    @Test("A lock with a grace, an unlock, a cancelled lock: from any handle, for several listeners at once")
    func events() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let other = try bag.reopened()
        let all = (0..<3).map { _ in Heard<ProtectedDataEvent>() }
        let tasks = all.map { read(bag.keybag, into: $0) }
        let armed = try #require(try other.armLock(seconds: 1000))
        for heard in all { #expect(await heard.waits { kinds($0) == [.will] }) }
        guard case .willBecomeUnavailable(let deadline)? = all[0].all.first else { return }
        // The same deadline by the same clock: what is left of it is between what was left before and what is left after.
        let before = armed.secondsLeft
        let left = (deadline - .now) / .seconds(1)
        #expect(left <= before + 0.001 && left >= armed.secondsLeft - 0.001)
        try other.finishLock(armed)
        for heard in all { #expect(await heard.waits { kinds($0) == [.will, .did] }) }
        try bag.unlock()
        for heard in all { #expect(await heard.waits { kinds($0) == [.will, .did, .available] }) }
        _ = try other.armLock(seconds: 1000)
        for heard in all { #expect(await heard.waits { kinds($0).last == .will }) }
        try other.cancelArmedLock()
        for heard in all { #expect(await heard.waits { kinds($0) == [.will, .did, .available, .will, .available] }) }
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
    }

    @Test("A lock without a grace is both at once, with a deadline that is over")
    func atOnce() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let heard = Heard<ProtectedDataEvent>()
        let task = read(bag.keybag, into: heard)
        try bag.reopened().lock()
        #expect(await heard.waits { kinds($0) == [.will, .did] })
        if case .willBecomeUnavailable(let deadline)? = heard.all.first { #expect(deadline <= .now) }
        task.cancel()
    }

    @Test("If nobody finishes an armed lock, the kernel locks, and listeners hear of it")
    func nobodyFinishes() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let heard = Heard<ProtectedDataEvent>()
        let task = read(bag.keybag, into: heard)
        _ = try bag.keybag.armLock(seconds: 0)
        #expect(await heard.waits { kinds($0) == [.will, .did] })
        #expect(try bag.keybag.state() == .locked)
        let nothing = Heard<Void>()
        #expect(await nothing.waits { _ in bag.absence(.unlocked) == Errno(rawValue: ENOKEY) }, "no remnant is left")
        task.cancel()
    }

    @Test("The end of a limited unlock is heard, though nobody announces it")
    func limited() async throws {
        let bag = try TestKeybag()
        let heard = Heard<ProtectedDataEvent>()
        let task = read(bag.keybag, into: heard)
        try bag.unlock(forSeconds: 1)
        #expect(await heard.waits { kinds($0) == [.available, .will, .did] })
        task.cancel()
    }

    @Test("A listener that starts during the grace is told of it, also without any event on disk")
    func late() async throws {
        let bag = try TestKeybag(state: .unlocked)
        _ = try bag.keybag.armLock(seconds: 1000)
        #expect(EventFile(of: bag.directory).read() == nil)
        let heard = Heard<ProtectedDataEvent>()
        let task = read(bag.keybag, into: heard)
        #expect(await heard.waits { kinds($0) == [.will] })
        task.cancel()
    }

    @Test("A slow listener misses old events, and never the last one")
    func slow() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let events = bag.keybag.protectedDataEvents
        let observer = Heard<ProtectedDataEvent>()
        let task = read(bag.keybag, into: observer)
        for count in 1...5 {
            try bag.keybag.lock()
            #expect(await observer.waits { $0.count == 3 * count - 1 })
            try bag.unlock()
            #expect(await observer.waits { $0.count == 3 * count })
        }
        task.cancel()
        var iterator = events.makeAsyncIterator()
        var kept: [ProtectedDataEvent] = []
        while kept.last != .didBecomeAvailable || kept.count < 4, let event = await iterator.next() {
            kept.append(event)
        }
        #expect(kinds(kept) == [.available, .will, .did, .available])
    }

    @Test("Waiting until files open: at once, after an unlock, and no longer than one wants to")
    func waitUntilAvailable() async throws {
        let bag = try TestKeybag(state: .unlocked)
        try await bag.keybag.waitUntilAvailable()
        try bag.keybag.lock()
        let returned = Heard<Void>()
        let waiting = Task {
            try await bag.keybag.waitUntilAvailable()
            returned.append(())
        }
        let tired = Task { try await bag.keybag.waitUntilAvailable() }
        tired.cancel()
        await #expect(throws: CancellationError.self) { try await tired.value }
        #expect(returned.all.isEmpty)
        try bag.unlock()
        try await waiting.value
        #expect(returned.all.count == 1)
    }

    @Test("Calls, one after the other, until nobody wants them")
    func calls() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let heard = Heard<ProtectedDataEvent>()
        var observation: ProtectedDataObservation? = bag.keybag.observeProtectedData { event in
            heard.append(event)
            // Whoever is told may call the library.
            if event == .didBecomeUnavailable { #expect(!bag.keybag.isProtectedDataAvailable) }
        }
        try bag.keybag.lock()
        #expect(await heard.waits { kinds($0) == [.will, .did] })
        observation = nil
        #expect(observation == nil)
        try bag.unlock()
        let other = Heard<ProtectedDataEvent>()
        let task = read(bag.keybag, into: other)
        try bag.keybag.lock()
        #expect(await other.waits { kinds($0) == [.will, .did] })
        #expect(heard.all.count == 2)
        task.cancel()
    }

    @Test("A stream that nobody reads, and calls that nobody keeps, hold nothing")
    func nothingKept() async throws {
        let bag = try TestKeybag(state: .unlocked)
        weak var keybag: Keybag?
        do {
            let reopened = try bag.reopened()
            keybag = reopened
            _ = reopened.protectedDataEvents
            _ = reopened.observeProtectedData { _ in }
            let task = Task { for await _ in reopened.protectedDataEvents {} }
            task.cancel()
            await task.value
        }
        let nothing = Heard<Void>()
        #expect(await nothing.waits { _ in keybag == nil })
    }

    @Test("Notifications have the raw values of UIKit's, and the keybag")
    func notifications() async throws {
        #expect(
            Notification.Name.protectedDataWillBecomeUnavailable.rawValue
                == "UIApplicationProtectedDataWillBecomeUnavailable")
        #expect(
            Notification.Name.protectedDataDidBecomeAvailable.rawValue == "UIApplicationProtectedDataDidBecomeAvailable"
        )
        let bag = try TestKeybag(state: .unlocked)
        let center = NotificationCenter()
        let heard = Heard<String>()
        let keybag = bag.keybag
        let tokens = [
            Notification.Name.protectedDataWillBecomeUnavailable, .protectedDataDidBecomeUnavailable,
            .protectedDataDidBecomeAvailable,
        ].map { name in
            center.addObserver(forName: name, object: keybag, queue: nil) { notification in
                let hasDeadline = notification.userInfo?["deadline"] is ContinuousClock.Instant
                heard.append(notification.name.rawValue + (hasDeadline ? " deadline" : ""))
            }
        }
        let observation = bag.keybag.postProtectedDataNotifications(to: center)
        try bag.keybag.lock()
        #expect(await heard.waits { $0.count == 2 })
        try bag.unlock()
        #expect(
            await heard.waits {
                $0 == [
                    "UIApplicationProtectedDataWillBecomeUnavailable deadline", "ProtectedDataDidBecomeUnavailable",
                    "UIApplicationProtectedDataDidBecomeAvailable",
                ]
            })
        observation.cancel()
        for token in tokens { center.removeObserver(token) }
    }
}
