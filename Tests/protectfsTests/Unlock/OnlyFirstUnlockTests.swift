import Foundation
import SystemPackage
import Testing

@Suite("unlock --only-first-unlock")
struct OnlyFirstUnlockTests {
    private let sandbox: CommandSandbox
    private let passcode = Data(CommandSandbox.passcode.utf8)

    init() throws { sandbox = try CommandSandbox() }

    @Test("first-unlock files open, stronger ones do not, and status says: locked")
    func opens() throws {
        try sandbox.unlock()
        try sandbox.protectedFile("a", Data("a".utf8), "complete")
        try sandbox.protectedFile("b", Data("b".utf8), "unless-open")
        try sandbox.protectedFile("c", Data("c".utf8), "first-unlock")
        sandbox.evictKeys(of: sandbox.keybagDirectory)
        #expect(try sandbox.run("cat", "c").status == 75)
        let done = try sandbox.run("unlock", "--only-first-unlock", "--passcode-fd", "3", passcodes: passcode)
        #expect(done.status == 0, "\(done.errors)")
        #expect(try sandbox.run("cat", "c").output == Data("c".utf8))
        for name in ["a", "b"] { #expect(try sandbox.run("cat", name).status == 75) }
        let status = try sandbox.run("status").text
        #expect(status.contains(": locked since "))
        #expect(status.contains("complete      evicted\n") && status.contains("first-unlock  in keyring since "))
        #expect(try sandbox.run("status", "--json").text.contains("\"state\": \"locked\""))
    }

    @Test("What is unlocked stays unlocked; with --for it is a usage error")
    func unlocked() throws {
        try sandbox.unlock()
        let done = try sandbox.run("unlock", "--only-first-unlock", "--passcode-fd", "3", passcodes: passcode)
        #expect(done.status == 0)
        #expect(try sandbox.run("status").text.contains(": unlocked since "))
        #expect(try sandbox.run("unlock", "--only-first-unlock", "--for", "1h").status == 64)
    }

    @Test("No warning that no agent runs: there is nothing that it would take away")
    func noWarning() throws {
        let seen = try PseudoTerminal.run(
            ["unlock", "--only-first-unlock"], in: sandbox,
            [.expect("Passcode: "), .send(CommandSandbox.passcode + "\n")])
        #expect(seen.status == 0)
        #expect(!seen.shown.contains("no agent"))
    }
}

/// The unit for a user whom no person is.
@Suite("The unit of a service user")
struct ServiceUnitTests {
    private static let file = "Examples/Service/protectfs-first-unlock@.service"

    @Test("Is one that systemd takes")
    func isTaken() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let unit = try Checkout.text(Self.file)
            .replacingOccurrences(of: "/usr/local/bin/protectfs", with: CommandSandbox.executable)
        let name = "protectfs-first-unlock@archive.service"
        guard let objections = try sandbox.objections(to: unit, named: name, for: .system) else { return }
        #expect(objections == "")
        let wrong = unit.replacingOccurrences(of: "LoadCredential=", with: "LoadCredentials=")
        #expect(try sandbox.objections(to: wrong, named: name, for: .system)?.contains("LoadCredentials") == true)
    }

    @Test(
        "Its command loads class key C alone, in a session without the user's keyring, as a service has it",
        .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
    func command() throws {
        let user = try EndToEndUser.made()
        let credentials = user.home.appending("credentials")
        try credentials.makeDirectory()
        try credentials.appending("passcode").store(Array("\(EndToEndUser.passcode)\n".utf8))
        try user.give(credentials)
        let unit = try Checkout.text(Self.file)
        let start = try #require(unit.split(separator: "\n").first { $0.hasPrefix("ExecStart=/bin/sh -c '") })
        // systemd.unit(5), "Specifiers": %d is the directory of the credentials.
        let script = start.dropFirst("ExecStart=/bin/sh -c '".count).dropLast()
            .replacing("%d", with: credentials.string)
            .replacing("/usr/local/bin/protectfs", with: user.programs.appending("protectfs").string)
        let done = try user.run(["sh", "-c", String(script)], in: .freshKeyring)
        #expect(done.status == 0, "\(done)")
        #expect(try user.status().state == "locked")
        let keys = try user.run(["cat", "/proc/keys"]).text
        #expect(keys.contains("\(user.keyName(2)):") && !keys.contains("\(user.keyName(1)):"))
    }
}
