import Foundation
import Testing

@testable import DataProtection

/// Must show 1: the state of the keyring follows the session.
@Suite("The agent, with a session on a bus of its own")
struct AgentTests {
    @Test("Lock arms, in the kernel too, and locks when the grace is over")
    func lock() throws {
        let bed = try AgentBed("--grace", "2")
        #expect(try !bed.isArmed)
        try bed.bus.lock("1")
        #expect(try waits(for: { try bed.isArmed || bed.state == .locked }))
        #expect(try bed.becomes(.locked) == .locked)
        #expect(bed.isEvicted, "and not only expired")
        #expect(bed.agent.log.contains("the session was locked: locks in 2 s"))
    }

    @Test("Unlock within the grace cancels: the keys never leave")
    func unlockInTime() throws {
        let bed = try AgentBed("--grace", "1000")
        try bed.bus.lock("1")
        #expect(try waits(for: { try bed.isArmed }))
        let key = bed.ringLine?.prefix(8)
        try bed.bus.unlock("1")
        #expect(try waits(for: { try !bed.isArmed }))
        #expect(try bed.state == .unlocked)
        #expect(bed.ringLine?.prefix(8) == key)
    }

    @Test("Unlock within the grace ends the agent's lock alone: one that was armed by hand for later stands again")
    func unlockLeavesOthers() throws {
        let bed = try AgentBed("--grace", "100")
        let byHand = try #require(try bed.keybag.armLock(seconds: 1000))
        for _ in 1...2 {
            try bed.bus.lock("1")
            #expect(waits(for: { bed.keybag.armedLock.map { $0.deadline < byHand.deadline } ?? false }))
            try bed.bus.unlock("1")
            #expect(waits(for: { bed.keybag.armedLock == byHand }))
        }
        #expect(try bed.isArmed && bed.state == .unlocked)
    }

    @Test("Unlock after the grace brings no key back")
    func unlockTooLate() throws {
        let bed = try AgentBed("--grace", "0")
        try bed.bus.lock("1")
        #expect(try bed.becomes(.locked) == .locked)
        try bed.bus.unlock("1")
        try bed.bus.lock("1")
        #expect(waits(for: { bed.agent.log.split(separator: "\n").filter { $0.contains("was locked") }.count == 2 }))
        #expect(try bed.state == .locked)
    }

    @Test("Before sleep there is no grace, and sleep is held up until the keys have gone", arguments: [true, false])
    func sleep(afterLock: Bool) throws {
        let bed = try AgentBed("--grace", "1000")
        #expect(try bed.bus.inhibitors().map { $0[1] } == ["protectfs"])
        if afterLock {
            try bed.bus.lock("1")
            #expect(try waits(for: { try bed.isArmed }))
            #expect(try bed.bus.inhibitors().count == 1)
        }
        try bed.bus.prepareForSleep(true)
        #expect(try waits(for: { try bed.bus.inhibitors().isEmpty }))
        #expect(try bed.state == .locked)
        #expect(bed.isEvicted)
        try bed.bus.prepareForSleep(false)
        #expect(try waits(for: { try bed.bus.inhibitors().count == 1 }))
        try bed.sandbox.unlock()
        #expect(try bed.state == .unlocked, "what was due before the sleep is not due after it")
    }

    @Test("A screensaver arms; that it goes cancels nothing")
    func screensaver() throws {
        let bed = try AgentBed("--grace", "1000")
        try bed.bus.screensaver(true)
        #expect(try waits(for: { try bed.isArmed }))
        try bed.bus.screensaver(false)
        try bed.bus.unlock("1")  // it was never locked
        try bed.bus.setHint("IdleHint", true, of: "1")
        #expect(try bed.isArmed)
        try bed.bus.removeSession("1")
        #expect(try bed.becomes(.locked) == .locked)
    }

    @Test("The end of the last session locks at once, of one of two it does not")
    func sessionsEnd() throws {
        let bed = try AgentBed("--grace", "1000")
        try bed.bus.addSession("2")
        try bed.bus.removeSession("1")
        try bed.bus.lock("2")
        #expect(try waits(for: { try bed.isArmed }))
        #expect(try bed.state == .unlocked)
        try bed.bus.removeSession("2")
        #expect(try bed.becomes(.locked) == .locked)
    }

    @Test("A lock while the bus is away is made up for when it is back")
    func busRestart() throws {
        let bed = try AgentBed("--grace", "0")
        try bed.bus.stop("logind")
        try bed.bus.stop("system")
        #expect(waits(for: { bed.agent.log.contains("logind cannot be heard") }))
        #expect(try bed.state == .unlocked)
        try bed.bus.startBus("system")
        try bed.bus.startLogind()
        try bed.bus.addSession("1")
        try bed.bus.setHint("LockedHint", true, of: "1")
        #expect(try bed.becomes(.locked) == .locked)
    }

    @Test("An Unlock that logind did not send cancels nothing, even when it is sent to the agent itself")
    func forgedUnlock() throws {
        let bed = try AgentBed("--grace", "1000")
        try bed.bus.lock("1")
        #expect(try waits(for: { try bed.isArmed }))
        for pid in [nil, bed.agent.pid] {
            try bed.bus.send(
                "Unlock", of: "org.freedesktop.login1.Session", at: "/org/freedesktop/login1/session/1", bus: "system",
                to: pid)
        }
        // What comes after it on the same bus has been heard: so has the forged one.
        try bed.bus.prepareForSleep(false)
        try bed.bus.screensaver(true)
        #expect(waits(for: { bed.agent.log.contains("a screensaver began") }))
        #expect(try bed.isArmed)
        try bed.bus.unlock("1")
        #expect(try waits(for: { try !bed.isArmed }))
        #expect(try bed.state == .unlocked)
    }

    @Test("Without logind a screensaver alone locks")
    func noLogind() throws {
        let bed = try AgentBed("--grace", "0", parts: [.systemBus, .sessionBus])
        try bed.bus.screensaver(true)
        #expect(try bed.becomes(.locked) == .locked)
    }

    @Test("A lock that is not proven is tried again until it is; sleep is held up, and the log says why once")
    func unprovenLock() throws {
        let bed = try AgentBed("--grace", "1000")
        // As an unlock that was stopped in its turn.
        let transition = open(bed.sandbox.keybagDirectory + "/transition", O_RDWR | O_CLOEXEC)
        #expect(flock(transition, LOCK_EX) == 0)
        let before = bed.keybag.transition.read().counter
        try bed.bus.prepareForSleep(true)
        #expect(try bed.becomes(.locked) == .locked)
        #expect(waits(for: { bed.keybag.transition.read().counter > before + 2 }), "it is tried again")
        #expect(try bed.bus.inhibitors().count == 1)
        let holder = "process \(getpid()) did not give back its lock"
        #expect(bed.agent.log.split(separator: "\n").filter { $0.contains(holder) }.count == 1, "\(bed.agent.log)")
        #expect(!bed.agent.log.contains("the machine is about to sleep: locked"))
        close(transition)
        #expect(try waits(for: { try bed.bus.inhibitors().isEmpty }))
        #expect(try bed.state == .locked)
    }

    @Test("A passcode that is typed while a lock cannot be proven ends that lock: the keys stay")
    func unlockedWhileUnproven() throws {
        let bed = try AgentBed("--grace", "0")
        // As an unlock in a user namespace that has ended without a lock.
        let boot = try String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8).filter(\.isHexDigit)
        let place = Data("77 \(boot) 0\n".utf8)
        let record = place + Data(repeating: 10, count: 1024 - place.count)
        let rings = URL(fileURLWithPath: bed.sandbox.keybagDirectory + "/rings")
        try (Data(contentsOf: rings).prefix { $0 != 10 } + [10] + record).prefix(1024).write(to: rings)
        try bed.bus.lock("1")
        #expect(try bed.becomes(.locked) == .locked)
        #expect(waits(for: { bed.agent.log.contains("not locked") }), "\(bed.agent.log)")
        // A lock that is tried during an unlock undoes it; not four times in a row.
        var stays = false
        for _ in 0..<4 where !stays {
            try? bed.sandbox.unlock()
            let end = Date() + 9  // longer than between two tries
            while Date() < end, try bed.state == .unlocked { usleep(50_000) }
            stays = try bed.state == .unlocked
        }
        #expect(stays, "\(bed.agent.log)")
    }

    @Test("A signal does not end it well while a lock is not proven")
    func endsUnproven() throws {
        let bed = try AgentBed("--grace", "0")
        let transition = open(bed.sandbox.keybagDirectory + "/transition", O_RDWR | O_CLOEXEC)
        #expect(flock(transition, LOCK_EX) == 0)
        defer { close(transition) }
        try bed.bus.lock("1")
        #expect(waits(for: { bed.agent.log.contains("did not give back its lock") }))
        bed.agent.kill(SIGTERM)
        #expect(bed.agent.status() == 75)
        #expect(try bed.state == .locked)
    }

    @Test("A passcode typed in the grace ends it")
    func passcode() throws {
        let bed = try AgentBed("--grace", "1000")
        try bed.bus.lock("1")
        #expect(try waits(for: { try bed.isArmed }))
        try bed.sandbox.unlock()
        #expect(try !bed.isArmed)
        #expect(try bed.state == .unlocked)
    }

    @Test("A lock that somebody else has armed for an earlier time is not cancelled by the screen")
    func armedByHand() throws {
        let bed = try AgentBed("--grace", "1000")
        let typed = try #require(try bed.keybag.armLock(seconds: 500))
        for locks in 1...3 {
            try bed.bus.lock("1")
            #expect(
                waits {
                    bed.agent.log.split(separator: "\n").filter { $0.contains("was locked: locks in") }.count == locks
                })
            #expect(bed.keybag.isStanding(typed))
            if locks < 3 { try bed.bus.unlock("1") }
        }
        try bed.keybag.cancelArmedLock()
        try bed.bus.lock("1")
        #expect(try waits(for: { try bed.isArmed }))
        try bed.bus.unlock("1")
        #expect(try waits(for: { try !bed.isArmed }), "this one is the agent's own")
    }
}
