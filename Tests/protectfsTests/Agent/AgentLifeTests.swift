import Foundation
import PrivateBus
import Testing

@testable import DataProtection

@Suite("The agent's life and limits")
struct AgentLifeTests {
    /// Must show 2.
    @Test(
        "Killed in the grace, its keys become unreadable all the same; the next command takes the remnant away",
        arguments: [["status"], ["ls", "."], ["lock"], ["agent", "status"]])
    func killed(command: [String]) throws {
        let bed = try AgentBed("--grace", "1")
        try bed.sandbox.protectedFile("file")
        try bed.bus.lock("1")
        #expect(try waits(for: { try bed.isArmed }))
        bed.agent.kill(SIGKILL)
        #expect(bed.agent.status() == SIGKILL)
        #expect(try bed.becomes(.locked) == .locked)
        #expect(throws: Errno.keyExpired) { _ = try bed.keybag.ring.unlocked.find() }
        #expect(try bed.sandbox.run(command).status == (command == ["agent", "status"] ? 75 : 0))
        #expect(throws: Errno(rawValue: ENOKEY)) { _ = try bed.keybag.ring.unlocked.find() }
        #expect(try bed.sandbox.run("cat", "file").status == 75)
    }

    @Test("There is one agent for a keybag; status says which, and that there is none when it was killed")
    func one() throws {
        let bed = try AgentBed()
        let second = try AgentProcess(bed.sandbox, ["--keybag", bed.sandbox.keybagDirectory])
        #expect(second.status() == 75)
        #expect(second.log.contains("an agent is running already (pid \(bed.agent.pid))"))
        let status = try bed.sandbox.run("agent", "status")
        #expect(status.status == 0)
        #expect(status.text.contains("process \(bed.agent.pid), "))
        #expect(status.text.contains("protectfs-agent"))
        let json = try #require(try bed.sandbox.run("agent", "status", "--json").json() as? [String: Any])
        #expect(json["running"] as? Bool == true)
        #expect(json["pid"] as? Int == Int(bed.agent.pid))
        #expect(json["followsAll"] as? Bool == false)
        bed.agent.kill(SIGKILL)
        _ = bed.agent.status()
        let gone = try bed.sandbox.run("agent", "status")
        #expect(gone.status == 75)
        #expect(gone.text == "not running\n")
    }

    @Test("SIGTERM ends it; an armed keybag is locked at once, and any other stays unlocked", arguments: [true, false])
    func ended(isArmed: Bool) throws {
        let bed = try AgentBed("--grace", "1000")
        if isArmed {
            try bed.bus.lock("1")
            #expect(try waits(for: { try bed.isArmed }))
        }
        bed.agent.kill(SIGTERM)
        #expect(bed.agent.status() == 0)
        #expect(try bed.state == (isArmed ? .locked : .unlocked))
    }

    @Test("Keys have a greatest age, and absence a limit")
    func limits() throws {
        // An age counts in whole seconds. With one second the agent could lock before the unlock below has looked whether the keys stayed.
        let aged = try AgentBed("--max", "3")
        func locks() -> Int { aged.agent.log.components(separatedBy: "time is over: locked").count - 1 }
        // A lock is not over when the keys have gone: until then it stops an unlock.
        #expect(waits { locks() == 1 }, "\(aged.agent.log)")
        #expect(try aged.state == .locked)
        // Loaded by hand: the agent hears of it.
        try aged.sandbox.unlock()
        #expect(waits { locks() == 2 }, "\(aged.agent.log)")
        #expect(try aged.state == .locked)
        let absent = try AgentBed("--idle", "1")
        try absent.bus.setHint("IdleHint", true, of: "1")
        #expect(try absent.becomes(.locked) == .locked)
    }

    @Test(
        "The agent waits for no time of the wall clock: a lock does not come later when that is set back",
        .enabled(
            if: geteuid() == 0 && access("/usr/bin/strace", X_OK) == 0, "only root can trace the agent, with strace(1)")
    )
    func clock() throws {
        let bed = try AgentBed("--max", "3")
        let strace = Process()
        strace.executableURL = URL(fileURLWithPath: "/usr/bin/strace")
        let calls = bed.sandbox.path("calls")
        strace.arguments = ["-f", "-qq", "-e", "trace=futex", "-o", calls, "-p", "\(bed.agent.pid)"]
        try strace.run()
        let status = "/proc/\(bed.agent.pid)/status"
        #expect(try waits { try !String(contentsOfFile: status, encoding: .utf8).contains("TracerPid:\t0\n") })
        // A wait that had begun before is not seen.
        try bed.sandbox.unlock()
        #expect(try bed.becomes(.locked) == .locked)
        kill(strace.processIdentifier, SIGKILL)
        strace.waitUntilExit()
        let text = try String(contentsOfFile: calls, encoding: .utf8)
        let limited = text.split(separator: "\n").filter { $0.contains(#/FUTEX_WAIT_BITSET[^,]*, \d+, \{/#) }
        #expect(!limited.isEmpty, "it has waited: \(text)")
        #expect(!limited.contains { $0.contains("FUTEX_CLOCK_REALTIME") }, "\(limited)")
    }

    @Test("The configuration sets what options do not; nonsense in it is refused")
    func configuration() throws {
        let bed = try AgentBed(configuration: "agent-grace = 0\nagent-idle = 15m\nagent-max = 8h # a day's work\n")
        #expect(bed.agent.log.contains("grace 0 s, idle 900 s, max 28800 s"))
        try bed.bus.lock("1")
        #expect(try bed.becomes(.locked) == .locked)
        for (line, reason) in [("agent-idle = soon", "soon is no time"), ("agent-nap = 1", "not agent-nap")] {
            try bed.sandbox.put(line, at: "config/protectfs/config")
            let done = try bed.sandbox.run("agent", "run")
            #expect(done.status == 78)
            #expect(done.errors.contains(reason))
        }
    }

    @Test("Without a bus, without a keybag, and with wrong words it says so and ends")
    func cannotRun() throws {
        let bus = try PrivateBus([])
        let sandbox = try CommandSandbox(variables: bus.environment)
        let noBus = try sandbox.run("agent", "run", "--keybag", sandbox.keybagDirectory)
        #expect(noBus.status == 69)
        #expect(noBus.errors.contains("no D-Bus"))
        #expect(try sandbox.run("agent", "run", "--keybag", sandbox.path("none")).status == 66)
        #expect(try sandbox.run("agent", "run", "--max", "soon").status == 64)
        #expect(try sandbox.shell("exec \"$PROTECTFS-agent\" --nonsense 1").status == 64)
        let copied = try sandbox.shell("cp \"$PROTECTFS\" alone; ./alone agent run")
        #expect(copied.status == 69)
        #expect(copied.errors.contains("protectfs-agent"))
    }

    @Test("The command itself does not load libsystemd, the agent does")
    func linkage() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        #expect(try !sandbox.shell("ldd \"$PROTECTFS\"").text.contains("libsystemd"))
        #expect(try sandbox.shell("ldd \"$PROTECTFS-agent\"").text.contains("libsystemd"))
    }
}
