import Foundation
import PrivateBus
import Testing

@testable import SessionLock

@Suite("Signals of somebody who is not logind")
struct ForgedSignalTests {
    private let session = "org.freedesktop.login1.Session"
    private let manager = "org.freedesktop.login1.Manager"
    private let path = "/org/freedesktop/login1/session/1"

    @Test("Are not believed, neither to all nor sent to us directly, past every match rule")
    func forged() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.lock("1")
        for pid in [nil, getpid()] {
            try bus.send("Unlock", of: session, at: path, bus: "system", to: pid)
            try bus.send("Lock", of: session, at: path, bus: "system", to: pid)
            try bus.send("PrepareForSleep", of: manager, at: "/org/freedesktop/login1", true, bus: "system", to: pid)
        }
        try bus.lock("1")
        #expect(await log.until(["locked", "locked"]) == ["locked", "locked"])
    }

    @Test("Are not believed while there is no logind, nor when another one has come")
    func forgedWithoutLogind() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.lock("1")
        try bus.stop("logind")
        _ = await log.until(["locked", "lost logind"])
        try bus.send("Unlock", of: session, at: path, bus: "system", to: getpid())
        try bus.startLogind()
        _ = await log.until(["locked", "lost logind", "back logind"])
        try bus.addSession("1")
        try bus.send("Unlock", of: session, at: path, bus: "system", to: getpid())
        try bus.lock("1")
        // The mock begins without sessions: ours has ended in between.
        let expected = ["locked", "lost logind", "back logind", "ended", "locked"]
        #expect(await log.until(expected) == expected)
    }

    @Test("A screensaver of logind's bus is none, and logind of the session bus is none")
    func wrongBus() async throws {
        let bus = try PrivateBus()
        try bus.addSession("1")
        let log = try EventLog(bus)
        try bus.send("ActiveChanged", of: "org.gnome.ScreenSaver", at: "/", true, bus: "system", to: getpid())
        try bus.send("Lock", of: session, at: path, bus: "session", to: getpid())
        try bus.lock("1")
        #expect(await log.until(["locked"]) == ["locked"])
    }
}
