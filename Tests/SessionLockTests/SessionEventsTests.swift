import Foundation
import PrivateBus
import Testing

@testable import SessionLock

@Suite("Sessions, by real D-Bus from a logind that does what it is told")
struct SessionEventsTests {
    @Test("Lock and Unlock of our session")
    func lockAndUnlock() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.lock("1")
        try bus.unlock("1")
        #expect(await log.until(["locked", "unlocked"]) == ["locked", "unlocked"])
    }

    @Test("A desktop that says it by LockedHint alone")
    func lockedHint() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.setHint("LockedHint", true, of: "1")
        try bus.setHint("LockedHint", false, of: "1")
        #expect(await log.until(["locked", "unlocked"]) == ["locked", "unlocked"])
    }

    @Test("A session that is locked already is heard of at once")
    func lockedBefore() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        try bus.setHint("LockedHint", true, of: "1")
        let log = try EventLog(bus)
        #expect(await log.until(["locked"]) == ["locked"])
    }

    @Test("Another user's sessions are not followed")
    func otherUser() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        try bus.addSession("2", uid: 4711)
        let log = try EventLog(bus)
        try bus.lock("2")
        try bus.unlock("2")
        try bus.setHint("LockedHint", true, of: "2")
        try bus.removeSession("2")
        try bus.lock("1")
        #expect(await log.until(["locked"]) == ["locked"])
    }

    @Test("Of two sessions each locks, and only the last unlock counts")
    func twoSessions() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        try bus.addSession("2")
        let log = try EventLog(bus)
        try bus.lock("1")
        try bus.lock("2")
        try bus.unlock("1")
        try bus.unlock("1")
        try bus.unlock("2")
        let expected = ["locked", "locked", "unlocked"]
        #expect(await log.until(expected) == expected)
    }

    @Test(
        "A session that appears is followed, and the end of the last one is the end; a manager's or closing one is none"
    )
    func sessionsComeAndGo() async throws {
        let bus = try PrivateBus()
        let log = try EventLog(bus)
        try bus.addSession("1")
        try bus.addSession("2")
        try bus.addSession("manager")
        try bus.setProperty("Class", "manager", of: "manager")
        // Heard while it is there: of a session that has gone again before anybody could ask, nothing is known.
        try bus.lock("2")
        #expect(await log.until(["locked"]) == ["locked"])
        try bus.unlock("2")
        #expect(await log.until(["locked", "unlocked"]) == ["locked", "unlocked"])
        try bus.removeSession("1")
        try bus.addSession("3")
        try bus.setProperty("State", "closing", of: "3")
        try bus.removeSession("2")
        let expected = ["locked", "unlocked", "ended"]
        #expect(await log.until(expected) == expected)
    }

    @Test("A session in which something goes on running has ended all the same")
    func lingering() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.setProperty("State", "closing", of: "1")
        try bus.setHint("Active", false, of: "1")
        #expect(await log.until(["ended"]) == ["ended"])
    }

    @Test("One without a seat has ended too, which logind writes down and says to nobody")
    func lingeringWithoutSeat() async throws {
        // A file that is no session's, beside those of logind, which only root can write.
        let name = "/run/systemd/sessions/protectfs-test-\(getpid())"
        guard FileManager.default.createFile(atPath: name + ".new", contents: nil) else {
            return print("skipped: an end without a signal: \(name) cannot be made")
        }
        defer { unlink(name) }
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.setProperty("State", "closing", of: "1")
        #expect(rename(name + ".new", name) == 0)
        #expect(await log.until(["ended"]) == ["ended"])
    }

    @Test("Idle, when every session that says so is")
    func idle() async throws {
        let bus = try PrivateBus()
        for session in ["1", "2", "terminal"] { try bus.addSession(session) }
        let log = try EventLog(bus)
        try bus.setHint("IdleHint", false, of: "2")
        try bus.setHint("IdleHint", true, of: "1")
        try bus.setHint("IdleHint", true, of: "2")
        try bus.setHint("IdleHint", false, of: "1")
        #expect(await log.until(["idle", "active"]) == ["idle", "active"])
    }

    @Test("Sleep is held up from the beginning until the inhibitor is released, and again after waking")
    func sleep() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        #expect(try bus.inhibitors() == [["sleep", "protectfs", "keys are taken out of memory", "delay"]])
        try bus.prepareForSleep(true)
        #expect(await log.until(["willSleep"]) == ["willSleep"])
        #expect(log.inhibitor?.isHeld == true)
        #expect(try bus.inhibitors().count == 1)
        log.inhibitor?.release()
        #expect(try await eventually { try bus.inhibitors().isEmpty })
        try bus.prepareForSleep(false)
        #expect(await log.until(["willSleep", "woke"]) == ["willSleep", "woke"])
        #expect(try await eventually { try bus.inhibitors().count == 1 })
        // Who does not handle the event holds nothing up for ever.
        try bus.prepareForSleep(true)
        _ = await log.until(["willSleep", "woke", "willSleep"])
        log.forget()
        #expect(try await eventually { try bus.inhibitors().isEmpty })
    }

    @Test(
        "Screensavers come and go; nonsense is passed over",
        arguments: [
            "org.freedesktop.ScreenSaver", "org.gnome.ScreenSaver", "org.kde.screensaver", "org.cinnamon.ScreenSaver",
            "org.mate.ScreenSaver", "org.xfce.ScreenSaver",
        ])
    func screensaver(interface: String) async throws {
        let bus = try PrivateBus()
        let log = try EventLog(bus)
        try bus.send("ActiveChanged", of: interface, at: "/", bus: "session")
        try bus.screensaver(true, interface: interface)
        try bus.screensaver(false, interface: interface)
        let expected = ["screensaverBegan", "screensaverEnded"]
        #expect(await log.until(expected) == expected)
    }

    @Test("Nothing is lost when much comes at once")
    func flood() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        for number in 0..<300 { try bus.screensaver(number % 2 == 0) }
        try bus.lock("1")
        let words = await log.until([String](repeating: "", count: 301))
        #expect(words.filter { $0 == "screensaverBegan" }.count == 150)
        #expect(words.filter { $0 == "screensaverEnded" }.count == 150)
        #expect(words.contains("locked"))
    }

    private func eventually(_ condition: () throws -> Bool) async throws -> Bool {
        for _ in 0..<1000 {
            if try condition() { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return false
    }
}
