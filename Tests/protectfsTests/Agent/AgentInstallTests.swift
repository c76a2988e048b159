import Foundation
import Testing

@testable import protectfs

@Suite("agent install, and unlock without an agent")
struct AgentInstallTests {
    private let sandbox: CommandSandbox

    init() throws { sandbox = try CommandSandbox() }

    @Test("The unit is one that systemd takes, and hides nothing by a namespace, in which the keyring is another one")
    func unit() throws {
        let unit = try sandbox.run("agent", "install", "--print").text
        #expect(unit.contains("\nExecStart=\(CommandSandbox.executable.resolved) agent run\n"))
        #expect(unit.contains("\nKeyringMode=inherit\n"))
        for key in ["Private", "Protect", "ReadOnly", "Inaccessible", "RootDirectory", "TemporaryFileSystem", "Bind"] {
            #expect(!unit.contains("\n\(key)"), "for a user's unit that means a user namespace: systemd.exec(5)")
        }
        guard let objections = try sandbox.objections(to: unit, named: "protectfs-agent.service") else { return }
        #expect(objections == "")
        let wrong = unit.replacingOccurrences(of: "UMask=", with: "UMaskk=")
        #expect(try sandbox.objections(to: wrong, named: "protectfs-agent.service")?.contains("UMaskk") == true)
    }

    @Test("download install: a unit that systemd takes, for the program that lies beside")
    func downloadUnit() throws {
        let unit = try sandbox.run("download", "install", "--print").text
        #expect(unit.contains("\nExecStart=\(CommandSandbox.executable.resolved) download run\n"))
        #expect(unit.contains("\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n"))
        #expect(!unit.contains("\nProtect") && !unit.contains("\nPrivate"), "that means a user namespace")
        let objections = try sandbox.objections(to: unit, named: "protectfs-download.service")
        #expect(objections == nil || objections == "")
        guard !UserUnit.isSystemdRunning else {
            return print("skipped: download install without systemd: it runs here")
        }
        let done = try sandbox.run("download", "install")
        #expect(done.status == 69 && done.errors.hasSuffix("download run &\n"))
    }

    @Test("A path that systemd would read otherwise is quoted")
    func quotedPath() throws {
        let unit = UserUnit.agent("/opt/100% \"mine\"/protectfs").text
        #expect(unit.contains("ExecStart=\"/opt/100%% \\\"mine\\\"/protectfs\" agent run\n"))
    }

    @Test("Is written whole, where the user's systemd looks")
    func written() throws {
        CommandSandbox.isolate()
        try UserUnit.agent("/bin/true").write()
        let path = String(cString: getenv("XDG_CONFIG_HOME")) + "/systemd/user/protectfs-agent.service"
        #expect(try String(contentsOfFile: path, encoding: .utf8) == UserUnit.agent("/bin/true").text)
    }

    @Test("Without systemd nothing is installed, and it is said what to do instead")
    func withoutSystemd() throws {
        guard !UserUnit.isSystemdRunning else {
            print("skipped: agent install without systemd: systemd runs here")
            return
        }
        let done = try sandbox.run("agent", "install")
        #expect(done.status == 69)
        #expect(done.errors.contains("hint: put this where your session starts programs: "))
        #expect(done.errors.hasSuffix("agent run &\n"))
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("config/systemd")))
    }

    @Test(
        "With systemd the unit is written, and then enabled and started; that this fails is said",
        .enabled(if: geteuid() == 0, "needs root: it gives itself another /run"), arguments: [0, 1])
    func withSystemd(status: Int32) throws {
        try sandbox.put("#!/bin/sh\necho \"$*\" >>\"$CALLS\"\nexit \(status)\n", at: "bin/systemctl")
        let done = try sandbox.shell(
            """
            chmod +x bin/systemctl; PATH="$PWD/bin:$PATH" CALLS="$PWD/calls" exec unshare --mount sh -c '
                mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "$PROTECTFS" agent install'
            """)
        #expect(done.status == (status == 0 ? 0 : 71), "\(done.errors)")
        let calls = try String(contentsOfFile: sandbox.path("calls"), encoding: .utf8)
        let enable = status == 0 ? "--user enable --now protectfs-agent.service\n" : ""
        #expect(calls == "--user daemon-reload\n" + enable)
        #expect(done.errors.isEmpty == (status == 0))
        let unit = try String(
            contentsOfFile: sandbox.path("config/systemd/user/protectfs-agent.service"), encoding: .utf8)
        #expect(unit == (try sandbox.run("agent", "install", "--print")).text)
    }

    @Test(
        "Where a package has the unit, that unit is enabled and none is written; a copy that hides it is named",
        .enabled(if: geteuid() == 0, "needs root: it gives itself another /run and another /usr/lib/systemd/user"))
    func packaged() throws {
        guard FileManager.default.fileExists(atPath: "/usr/lib/systemd/user") else {
            return print("skipped: agent install with a package: no directory /usr/lib/systemd/user here")
        }
        try sandbox.put("#!/bin/sh\necho \"$*\" >>\"$CALLS\"\n", at: "bin/systemctl")
        // `changed` is applied to the unit of the package.
        func install(_ changed: String) throws -> Outcome {
            let done = try sandbox.shell(
                """
                chmod +x bin/systemctl; : >calls; PATH="$PWD/bin:$PATH" CALLS="$PWD/calls" exec unshare --mount sh -c '
                    mount -t tmpfs none /run && mkdir -p /run/systemd/system && mount -t tmpfs none /usr/lib/systemd/user &&
                    "$PROTECTFS" agent install --print | sed "\(changed)" >/usr/lib/systemd/user/protectfs-agent.service &&
                    exec "$PROTECTFS" agent install'
                """)
            #expect(done.status == 0, "\(done.errors)")
            #expect(
                try String(contentsOfFile: sandbox.path("calls"), encoding: .utf8)
                    == "--user daemon-reload\n--user enable --now protectfs-agent.service\n")
            return (done.errors, FileManager.default.fileExists(atPath: sandbox.path(own)))
        }
        let own = "config/systemd/user/protectfs-agent.service"
        let packaged = try install("")
        #expect(packaged.errors == "" && !packaged.isWritten)
        // The unit of another installation: ours is written, and comes first.
        let foreign = try install("s|^ExecStart=[^ ]*|ExecStart=/opt/protectfs|")
        #expect(foreign.errors == "" && foreign.isWritten)
        let hiding = try install("")
        #expect(
            hiding.errors.contains("hides the unit of the package") && hiding.errors.contains("hint: unless you have"))
    }

    private typealias Outcome = (errors: String, isWritten: Bool)

    @Test("A missing program is looked for in a package only where a package installs it")
    func remedy() {
        #expect(
            SiblingProgram.remedy(missing: "/usr/libexec/protectfs/protectfs-mount")
                == "install the package protectfs-mount")
        #expect(SiblingProgram.remedy(missing: "/usr/local/libexec/protectfs/protectfs-mount").hasSuffix("./install"))
    }

    @Test("unlock says once that no agent runs, to a person, about keys without an end")
    func warning() throws {
        let typed: [PseudoTerminal.Step] = [.expect("Passcode: "), .send(CommandSandbox.passcode + "\n")]
        #expect(try !PseudoTerminal.run(["unlock", "--for", "1h"], in: sandbox, typed).shown.contains("no agent"))
        try sandbox.unlock()
        let first = try PseudoTerminal.run(["unlock"], in: sandbox, typed)
        #expect(first.status == 0)
        #expect(first.shown.contains("protectfs: warning: no agent runs: the keys stay until protectfs lock"))
        #expect(first.shown.contains("after a logout too"))
        #expect(first.shown.contains("protectfs unlock --for 2h"), "it works everywhere")
        #expect(try !PseudoTerminal.run(["unlock"], in: sandbox, typed).shown.contains("no agent"), "once")
    }

    @Test("With an agent, unlock says nothing of the kind")
    func noWarning() throws {
        let bed = try AgentBed()
        let typed: [PseudoTerminal.Step] = [.expect("Passcode: "), .send(CommandSandbox.passcode + "\n")]
        #expect(try !PseudoTerminal.run(["unlock"], in: bed.sandbox, typed).shown.contains("no agent"))
        bed.agent.kill(SIGKILL)
        _ = bed.agent.status()
        #expect(try PseudoTerminal.run(["unlock"], in: bed.sandbox, typed).shown.contains("no agent"))
    }

    @Test("The unit for logout without an agent is one that systemd takes")
    func logoutUnit() throws {
        let unit = try Checkout.text("Examples/Logout/protectfs-logout.service")
            .replacingOccurrences(of: "/usr/local/bin/protectfs", with: CommandSandbox.executable)
        let objections = try sandbox.objections(to: unit, named: "protectfs-logout.service")
        #expect(objections == nil || objections == "")
    }
}

extension String {
    /// The path without links in it.
    fileprivate var resolved: String { URL(fileURLWithPath: self).resolvingSymlinksInPath().path }
}
