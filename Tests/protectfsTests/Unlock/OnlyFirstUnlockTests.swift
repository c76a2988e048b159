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

    @Test("An unlocked keybag stays unlocked; --for is a usage error")
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

/// A secret in the place of the passcode.
@Suite("service-secret")
struct ServiceSecretTests {
    private let sandbox: CommandSandbox
    private let passcode = Data(CommandSandbox.passcode.utf8)

    init() throws { sandbox = try CommandSandbox() }

    private func add(_ name: String) throws -> Finished {
        try sandbox.run("service-secret", "add", "--passcode-fd", "3", name, passcodes: passcode)
    }

    private func unlock(_ secret: Data) throws -> Finished {
        sandbox.evictKeys(of: sandbox.keybagDirectory)
        return try sandbox.run("unlock", "--only-first-unlock", "--secret-fd", "3", passcodes: secret)
    }

    @Test("One line that opens first-unlock files and no others, until it is removed")
    func opens() throws {
        try sandbox.unlock()
        for name in ["complete", "unless-open", "first-unlock"] {
            try sandbox.protectedFile(name, Data("x".utf8), name)
        }
        let added = try add("boot")
        #expect(added.status == 0 && added.errors == "" && added.output.count == 65)
        #expect(try sandbox.run("service-secret", "list").text == "boot\n")
        #expect(
            try sandbox.run("service-secret", "list", "--json").text == """
                [
                  {
                    "name": "boot",
                    "current": true
                  }
                ]

                """)
        let opened = try unlock(added.output)
        #expect(opened.status == 0 && opened.errors == "", "\(opened.errors)")
        #expect(try sandbox.run("cat", "first-unlock").output == Data("x".utf8))
        for name in ["complete", "unless-open"] { #expect(try sandbox.run("cat", name).status == 75) }
        #expect(try sandbox.run("status").text.contains(": locked since "))
        let removing = ["service-secret", "remove", "--passcode-fd", "3", "boot"]
        #expect(try sandbox.run(removing, passcodes: passcode).status == 0)
        let removed = try unlock(added.output)
        #expect(removed.status == 77)
        #expect(removed.errors.contains("this first-unlock secret does not open"))
        #expect(try sandbox.run("cat", "first-unlock").status == 75)
        #expect(try sandbox.run("service-secret", "list").text == "")
    }

    @Test("Mistakes have their statuses, before anybody types a passcode where that is possible")
    func mistakes() throws {
        let added = try add("boot")
        #expect(try sandbox.run("service-secret", "add", "boot").status == 73)
        #expect(try sandbox.run("service-secret", "remove", "other").status == 66)
        #expect(try add("a\u{1}b").status == 64)
        #expect(try sandbox.run("unlock", "--secret-fd", "3", passcodes: added.output).status == 64)
        let both = ["unlock", "--only-first-unlock", "--secret-fd", "3", "--passcode-fd", "3"]
        #expect(try sandbox.run(both, passcodes: passcode).status == 64)
        #expect(try unlock(Data("4f0c".utf8)).status == 64)
        let full = try sandbox.shell(
            "\"$PROTECTFS\" service-secret add --passcode-fd 0 full >/dev/full", input: passcode)
        #expect(full.status == 74, "\(full.errors)")
        #expect(try sandbox.run("service-secret", "list").text == "boot\n", "what nobody got opens nothing")
    }

    @Test(
        "An engine that gave nothing is not an empty passcode: try again later",
        arguments: ["--secret-fd", "--passcode-fd"])
    func nothing(option: String) throws {
        let attempts = try Data(contentsOf: URL(fileURLWithPath: sandbox.keybagDirectory + "/attempts"))
        let done = try sandbox.run("unlock", "--only-first-unlock", option, "3", passcodes: Data())
        #expect(done.status == 75)
        #expect(done.errors.contains("nothing arrived on descriptor 3"))
        #expect(try Data(contentsOf: URL(fileURLWithPath: sandbox.keybagDirectory + "/attempts")) == attempts)
    }

    @Test("A rotation says which secrets it has ended")
    func rotated() throws {
        let added = try add("boot")
        try sandbox.unlock()
        let done = try sandbox.run("rotate", "--root", ".", "--passcode-fd", "3", passcodes: passcode)
        #expect(done.status == 0)
        #expect(done.errors.contains("first-unlock secrets no longer open the keybag: 'boot'"), "\(done.errors)")
        #expect(try unlock(added.output).status == 77)
    }
}

/// The unit for a user whom no person is.
@Suite("The unit of a service user")
struct ServiceUnitTests {
    private static let file = "Examples/Service/protectfs-first-unlock@.service"

    @Test("Is one that systemd takes, and so is the one with clevis", arguments: ["", "-clevis"])
    func isTaken(kind: String) throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let unit = try Checkout.text("Examples/Service/protectfs-first-unlock\(kind)@.service")
            .replacingOccurrences(of: "/usr/local/bin/protectfs", with: CommandSandbox.executable)
        let name = "protectfs-first-unlock\(kind)@archive.service"
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
        let added = try user.run(
            ["protectfs", "service-secret", "add", "--passcode-fd", "0", "boot"],
            input: Array("\(EndToEndUser.passcode)\n".utf8))
        #expect(added.status == 0, "\(added)")
        try credentials.appending("secret").store(Array(added.text.utf8))
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
