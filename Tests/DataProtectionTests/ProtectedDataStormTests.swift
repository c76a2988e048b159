import Testing

@testable import DataProtection

@Suite("Events while locks, unlocks and listeners come and go")
struct ProtectedDataStormTests {
    /// Whether each of these can follow the one before it.
    private func isPossible(_ events: [ProtectedDataEvent], wasAvailable: Bool) -> Bool {
        var before: ProtectedDataEvent = wasAvailable ? .didBecomeAvailable : .didBecomeUnavailable
        for event in events {
            switch (before, event) {
            case (.didBecomeAvailable, .willBecomeUnavailable), (.willBecomeUnavailable, .willBecomeUnavailable),
                (.willBecomeUnavailable, .didBecomeUnavailable), (.willBecomeUnavailable, .didBecomeAvailable),
                (.didBecomeUnavailable, .didBecomeAvailable):
                before = event
            default: return false
            }
        }
        return true
    }

    @Test(
        "However fast two lock and unlock, everybody hears a story that can be, and its end", .timeLimit(.minutes(20)))
    func pairs() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let all = (0..<8).map { _ in Heard<ProtectedDataEvent>() }
        let observations = try all.map { heard in try bag.keybag.listen { for event in $0 { heard.append(event) } } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<2 {
                group.addTask {
                    let keybag = try bag.reopened()
                    for round in 0..<100 {
                        if number == 0, round % 3 == 0 { _ = try keybag.armLock(seconds: 100) }
                        try keybag.lock()
                        do throws(DataProtectionError) {
                            try keybag.unlock(passcode: secret(TestKeybag.passcode))
                        } catch .because(KeybagFailure.lockedMeanwhile) {}
                    }
                }
            }
            try await group.waitForAll()
        }
        try bag.unlock()
        try bag.keybag.lock()
        for heard in all {
            #expect(await heard.waits { $0.last == .didBecomeUnavailable })
            #expect(isPossible(heard.all, wasAvailable: true))
        }
        try bag.unlock()
        for heard in all { #expect(await heard.waits { $0.last == .didBecomeAvailable }) }
        for observation in observations { observation.cancel() }
    }

    @Test("Waiters and listeners that come and go meanwhile get the state that they wait for", .timeLimit(.minutes(20)))
    func comingAndGoing() async throws {
        let bag = try TestKeybag(state: .unlocked)
        let keybag = bag.keybag
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<50 {
                        let events = keybag.protectedDataEvents
                        try await keybag.waitUntilAvailable()
                        let task = Task { for await _ in events {} }
                        let observation = keybag.observeProtectedData { _ in }
                        if Bool.random() { await Task.yield() }
                        observation.cancel()
                        task.cancel()
                        await task.value
                    }
                }
            }
            for _ in 0..<50 {
                try keybag.lock()
                try bag.unlock()
            }
            try await group.waitForAll()
        }
    }
}
