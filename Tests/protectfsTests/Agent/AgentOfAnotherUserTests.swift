import Foundation
import PrivateBus
import SystemPackage
import Testing

/// As a user of its own: the agent locks whatever is in the ring, the keybags of other tests too.
@Suite(
    "The agent that follows every keybag",
    .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
struct AgentOfAnotherUserTests {
    private let bus: PrivateBus
    private let user: EndToEndUser

    init() throws {
        bus = try PrivateBus()
        user = try EndToEndUser.made()
        try bus.addSession("1", uid: user.uid)
    }

    @Test(
        "Locks its own, another one, and one whose directory has gone, from a session without the user's keyring too",
        arguments: [EndToEndUser.Session.plain, .freshKeyring])
    func all(session: EndToEndUser.Session) throws {
        try user.unlock()
        for name in ["two", "three"] {
            let made = try user.run(
                ["protectfs", "init", "--passcode-fd", "0", "--keybag", user.home.appending(name).string],
                input: Array("secret".utf8))
            #expect(made.status == 0, "\(made)")
        }
        #expect(rename(user.home.appending("three").string, user.home.appending("gone").string) == 0)
        #expect(try keys("1") == 3)
        let agent = try start(grace: 1, in: session)
        let status = try user.run(["protectfs", "agent", "status", "--keybag", user.home.appending("two").string])
        #expect(status.text.hasSuffix("follows every unlocked keybag\n"), "\(status)")
        try bus.lock("1")
        #expect(try waits { try keys("1") == 0 }, "\(log)")
        #expect(try keys("2") == 3)
        agent.terminate()
    }

    @Test("Locks where the user may have no more processes and threads, at once and after a grace", arguments: [0, 1])
    func noThread(grace: Int) throws {
        try user.unlock()
        let agent = try start(grace: grace, in: .freshKeyring)  // as a service of systemd
        // Threads that are left over from its start would hide that it needs another one.
        sleep(6)
        let limited = try user.run(["prlimit", "--pid", "\(agent.pid)", "--nproc=1:1"])
        #expect(limited.status == 0, "\(limited)")
        try bus.lock("1")
        #expect(waits { log.contains(grace == 0 ? "the session was locked: locked" : "locked '") }, "\(log)")
        // /proc/keys shows an invalidated key until the kernel's collector has run.
        #expect(try waits { try keys("1") == 0 }, "\(log)")
        agent.terminate()
    }

    /// Starts an agent, and waits until it follows.
    private func start(grace: Int, in session: EndToEndUser.Session) throws -> EndToEndProcess {
        let agent = try user.start(
            [
                "sh", "-c",
                "exec env \"$1\" \"$2\" \"$3\" agent run --grace \(grace) 2>\"$4\"", "sh",
                "DBUS_SYSTEM_BUS_ADDRESS=\(bus.systemAddress)", "DBUS_SESSION_BUS_ADDRESS=\(bus.sessionAddress)",
                user.programs.appending("protectfs").string, logFile,
            ], in: session)
        #expect(waits { log.contains("follows") })
        return agent
    }

    private var logFile: String { user.home.appending("log").string }
    /// What the agent has said.
    private var log: String { (try? String(contentsOfFile: logFile, encoding: .utf8)) ?? "" }

    /// How many keys of this user's keybags are in the kernel: `1` of A and B, `2` of C.
    private func keys(_ number: String) throws -> Int {
        let listed = try user.run(["cat", "/proc/keys"]).text.split(separator: "\n")
        return listed.filter { $0.contains("protectfs:") && $0.contains(":\(number):") }.count
    }
}
