import Foundation
import Glibc
import PrivateBus
import Testing

@testable import SessionLock

@Suite("Without a bus, without logind, and when they come back")
struct LostBusTests {
    @Test("Without any bus there is an error that says so")
    func noBus() throws {
        let bus = try PrivateBus([])
        let error = #expect(throws: SessionLockError.self) { _ = try EventLog(bus) }
        guard case .noBus = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    /// sd-bus itself would wait for 90 seconds, in which nobody hears the other bus.
    @Test("A bus that accepts a connection and does not answer is given up")
    func mute() throws {
        let path = "/tmp/protectfs-mute-\(UUID().uuidString)"
        let socket = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer {
            close(socket)
            unlink(path)
        }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(isBound == 0 && listen(socket, 8) == 0)
        do {
            _ = try BusConnection(to: .session, at: "unix:path=\(path)")
            Issue.record("it has connected")
        } catch { #expect(error == .timedOut) }
    }

    @Test("Without a system bus, or without logind on it, screensavers are followed", arguments: [true, false])
    func screensaverAlone(hasSystemBus: Bool) async throws {
        let bus = try PrivateBus(hasSystemBus ? [.systemBus, .sessionBus] : [.sessionBus])
        let log = try EventLog(bus)
        try bus.screensaver(true)
        let expected = ["lost logind", "screensaverBegan"]
        #expect(await log.until(expected) == expected)
    }

    @Test("Without a session bus logind is followed")
    func logindAlone() async throws {
        let bus = try PrivateBus([.systemBus, .logind])
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.lock("1")
        #expect(await log.until(["lost screensaver", "locked"]) == ["lost screensaver", "locked"])
        try bus.startBus("session")
        _ = await log.until(["lost screensaver", "locked", "back screensaver"])
        try bus.screensaver(true)
        let expected = ["lost screensaver", "locked", "back screensaver", "screensaverBegan"]
        #expect(await log.until(expected) == expected)
    }

    @Test("A lock during a restart of the bus is not missed; sleep is held up again")
    func restart() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.stop("logind")
        try bus.stop("system")
        #expect(await log.until(["lost logind"]).last == "lost logind")
        try bus.startBus("system")
        try bus.startLogind()
        try bus.addSession("1")
        try bus.setHint("LockedHint", true, of: "1")
        #expect(try await hears("locked", log))
        log.forget()
        try bus.unlock("1")
        #expect(await log.until(["unlocked"]) == ["unlocked"])
        #expect(try bus.inhibitors().count == 1)
    }

    @Test("An unlock that was missed is none")
    func missedUnlock() throws {
        var sessions = LoginSessions()
        #expect(words(sessions.list(["1": .init(), "2": .init()])) == [])
        #expect(words(sessions.lock("1")) == ["locked"])
        #expect(words(sessions.list(["1": .init(), "2": .init()], afterSilence: true)) == [])
        #expect(words(sessions.unlock("2")) == [], "it was not locked")
        #expect(words(sessions.unlock("1")) == ["unlocked"])
        let locked = LoginSessions.Hints(isLocked: true, isIdle: false)
        #expect(words(sessions.list(["1": locked])) == ["locked"])
        #expect(words(sessions.list(["1": locked])) == [], "known")
        #expect(words(sessions.list(["1": locked], afterSilence: true)) == ["locked"], "said again")
        #expect(words(sessions.list([:])) == ["ended"])
        #expect(words(sessions.list([:])) == [])
        #expect(words(sessions.lock("1")) == [], "gone")
    }

    private func words(_ events: [SessionEvent]) -> [String] { events.map(\.word) }

    private func hears(_ word: String, _ log: EventLog) async throws -> Bool {
        for _ in 0..<1000 {
            if log.words.last == word { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        print("heard: \(log.words)")
        return false
    }
}
