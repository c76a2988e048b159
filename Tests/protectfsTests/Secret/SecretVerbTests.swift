import DataProtection
import Foundation
import Testing

@Suite("protectfs secret")
struct SecretVerbTests {
    private let sandbox: CommandSandbox

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func secret(_ words: String..., value: String = "") throws -> Finished {
        try sandbox.run(["secret"] + words, input: Data(value.utf8))
    }

    private static let imap = ["--service", "imap", "--account", "kim"]

    private func secret(_ verb: String, _ words: [String], value: String = "") throws -> Finished {
        try sandbox.run(["secret", verb] + words, input: Data(value.utf8))
    }

    @Test("add, get, set, update, delete; silent on success; 73 and 66 for what is there and what is not")
    func life() throws {
        let name = Self.imap
        for verb in ["get", "update", "delete"] {
            let done = try secret(verb, name, value: "x")
            #expect(done.status == 66, "\(verb)")
            #expect(done.errors.contains("there is no secret 'imap' 'kim' in group protectfs"), "\(done.errors)")
        }
        let added = try secret("add", name, value: "one\n")
        #expect(added.status == 0 && added.text.isEmpty && added.errors.isEmpty, "\(added.errors)")
        #expect(try secret("get", name).text == "one\n")
        #expect(try secret("get", name + ["--raw"]).text == "one")
        let again = try secret("add", name, value: "two")
        #expect(again.status == 73 && again.errors.contains("hint: to change it: protectfs secret update, or set"))
        #expect(try secret("update", name, value: "two").status == 0)
        #expect(try secret("set", name + ["--raw"], value: "three\n\n").status == 0)
        #expect(try secret("get", name + ["--raw"]).text == "three\n\n")
        #expect(try secret("delete", name).status == 0)
        #expect(try secret("get", name).status == 66)
    }

    @Test("A value of a descriptor, and typed: asked for once, and not shown")
    func values() throws {
        let done = try sandbox.run(
            ["secret", "add", "--account", "fd", "--value-fd", "3"], passcodes: Data("by fd".utf8))
        #expect(done.status == 0, "\(done.errors)")
        #expect(try secret("get", "--account", "fd").text == "by fd\n")
        let typed = try PseudoTerminal.run(
            ["secret", "add", "--account", "typed"], in: sandbox, [.expect("Secret: "), .look, .send("by hand\n")])
        #expect(typed.status == 0 && typed.echo.first == false && !typed.shown.contains("by hand"))
        #expect(try secret("get", "--account", "typed").text == "by hand\n")
    }

    @Test("75 while locked, with the accessibility and a hint; the secret can still be searched and deleted")
    func locked() throws {
        _ = try secret("add", Self.imap, value: "one")
        _ = try secret("add", ["--service", "sync", "--accessibility", "after-first-unlock"], value: "two")
        #expect(try sandbox.run("lock").status == 0)
        let done = try secret("get", Self.imap)
        #expect(done.status == 75)
        #expect(
            done.errors.contains("cannot use the when-unlocked secret 'imap' 'kim': class complete, locked since"),
            "\(done.errors)")
        #expect(done.errors.contains("hint: unlock first: protectfs unlock"))
        #expect(try secret("get", "--service", "sync").text == "two\n")
        #expect(try secret("set", Self.imap, value: "three").status == 75)
        #expect(try secret("find").text.split(separator: "\n").count == 2)
        #expect(try secret("delete", Self.imap).status == 0)
    }

    @Test(
        "78: a store that another machine has used; the hint has the command that takes it over",
        .enabled(if: FileManager.default.fileExists(atPath: "/etc/machine-id"), "there is no /etc/machine-id"))
    func anotherMachine() throws {
        #expect(try secret("add", Self.imap, value: "one").status == 0)
        let note = sandbox.keybagDirectory + "/secrets/machine"
        try (String(repeating: "b2", count: 16) + "\n").write(toFile: note, atomically: false, encoding: .utf8)
        let done = try secret("get", Self.imap)
        #expect(done.status == 78 && done.errors.contains("was used by another machine"), "\(done.errors)")
        let command = try #require(done.errors.components(separatedBy: "then take it over: ").last)
        #expect(try sandbox.shell(command).status == 0, "\(done.errors)")
        #expect(try secret("get", Self.imap).text == "one\n")
    }

    @Test("find lists the attributes of secrets, in one group or in all, with duplicates marked")
    func find() throws {
        let host = ["--host", "Example.org", "--account", "kim", "--port", "8443"]
        let group = ["--group", "protectfs.org.example.shared"]
        _ = try secret("add", Self.imap, value: "1")
        _ = try secret("add", host, value: "2")
        _ = try secret("add", host + group, value: "3")
        _ = try secret("add", Self.imap + ["--app", "org.example.mail"], value: "4")
        #expect(
            try secret("find").text == """
                generic  when-unlocked  'imap' 'kim'
                internet  when-unlocked  'https://kim@example.org:8443'

                """)
        #expect(try secret("find", "--host", "example.org").text.split(separator: "\n").count == 1)
        #expect(try secret("find", "--service", "none").text.isEmpty)
        let all = try secret("find", "--all-groups").text.split(separator: "\n")
        #expect(all.count == 4 && all.allSatisfy { $0.hasSuffix("duplicate") })
        #expect(try secret("get", host + group).text == "3\n")
        #expect(try secret("get", Self.imap + ["--app", "org.example.mail"]).text == "4\n")
        let members = try #require(try secret("find", "--json").json() as? [[String: Any]])
        #expect(members.map { $0["kind"] as? String } == ["generic", "internet"])
        #expect(members[1]["port"] as? Int == 8443 && members[0]["duplicate"] as? Bool == false)
    }

    @Test("get takes a single name if only one secret of the group has it; list is find")
    func singleName() throws {
        _ = try secret("add", Self.imap, value: "1")
        _ = try secret("add", ["--host", "Example.org", "--account", "kim"], value: "2")
        _ = try secret("add", Self.imap + ["--group", "protectfs.org.example.shared"], value: "3")
        #expect(try secret("get", "imap").text == "1\n")
        #expect(try secret("get", "EXAMPLE.org", "--raw").text == "2")
        #expect(try secret("get", "imap", "--group", "protectfs.org.example.shared").text == "3\n")
        let several = try secret("get", "kim")
        #expect(several.status == 64 && several.text.isEmpty)
        #expect(several.errors.contains("2 secrets are called 'kim': 'imap' 'kim', 'https://kim@example.org'"))
        #expect(several.errors.contains("hint: say which one: --service"), "\(several.errors)")
        let none = try secret("get", "nobody")
        #expect(none.status == 66 && none.errors.contains("is called 'nobody'"), "\(none.errors)")
        for wrong in [["imap", "--account", "kim"], [""], []] { #expect(try secret("get", wrong).status == 64) }
        #expect(try secret("list").output == secret("find").output)
    }

    @Test("Only the accessibility changes")
    func keepValue() throws {
        _ = try secret("add", Self.imap, value: "one")
        let done = try secret("update", Self.imap + ["--keep-value", "--accessibility", "after-first-unlock"])
        #expect(done.status == 0, "\(done.errors)")
        #expect(try sandbox.run("lock").status == 0)
        #expect(try secret("get", Self.imap).text == "one\n")
    }

    @Test("An identity: the PKCS #12 as it was, and its passphrase")
    func identity() throws {
        let made = try sandbox.shell(
            """
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k.pem -out c.pem -subj /CN=kim 2>&1 &&
            openssl pkcs12 -export -inkey k.pem -in c.pem -out kim.p12 -passout pass:phrase 2>&1
            """)
        #expect(made.status == 0, "\(made.text)")
        let done = try sandbox.shell(
            "exec \"$PROTECTFS\" secret add --identity kim --value-fd 4 --passphrase-fd 3 4<kim.p12 3<<E\nphrase\nE\n")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try secret("get", "--identity", "kim").output == sandbox.stored("kim.p12"))
        #expect(try secret("get", "--identity", "kim", "--passphrase").text == "phrase\n")
        let opened = try sandbox.shell(
            """
            "$PROTECTFS" secret get --identity kim | openssl pkcs12 -nokeys -passin fd:3 3<<E 2>&1
            $("$PROTECTFS" secret get --identity kim --passphrase)
            E
            """)
        #expect(opened.text.contains("BEGIN CERTIFICATE"), "\(opened.text)")
        #expect(try secret("add", "--identity", "other", value: "no DER").status == 64)
    }

    @Test("export and import: all of it or nothing; a protected file by default")
    func portable() throws {
        _ = try secret("add", Self.imap, value: "one\n\u{1}")
        _ = try secret("add", "--host", "example.org", "--path", "a \"b\"", "--account", "käthe", value: "")
        _ = try secret("add", "--account", "here", "--accessibility", "when-unlocked-this-device-only", value: "stays")
        let exported = try secret("export", "saved")
        #expect(exported.status == 0 && exported.errors.contains("warning: 1 secret of this device only left out"))
        #expect(try secret("export", "saved").status == 73)
        #expect(try sandbox.run("ls", "saved").text.hasPrefix("complete"))
        let clear = try secret("export", "-").text
        #expect(clear.hasPrefix("protectfs secrets 1\n{") && clear.hasSuffix("\nend 2\n"))
        #expect(try secret("import", "saved").status == 73)
        #expect(try secret("update", Self.imap, value: "two").status == 0)
        #expect(try secret("import", "saved", "--replace").status == 0)
        #expect(try secret("get", Self.imap + ["--raw"]).text == "one\n\u{1}")
        #expect(try secret("delete", Self.imap).status == 0)
        #expect(try secret("delete", "--host", "example.org", "--path", "a \"b\"", "--account", "käthe").status == 0)
        // Cut short anywhere, or with anything altered, nothing of it is taken.
        let bytes = Array(clear.utf8)
        for length in stride(from: 0, to: bytes.count - 1, by: 7) {
            let done = try sandbox.run(["secret", "import", "-"], input: Data(bytes[..<length]))
            #expect(done.status == 64, "\(length): \(done.errors)")
        }
        #expect(try sandbox.run(["secret", "import", "-"], input: Data(bytes + Array("more\n".utf8))).status == 64)
        #expect(try secret("find").text.split(separator: "\n").count == 1)
        #expect(try sandbox.run(["secret", "import", "-"], input: Data(bytes)).status == 0)
        #expect(try secret("get", Self.imap + ["--raw"]).text == "one\n\u{1}")
        #expect(try sandbox.run("lock").status == 0)
        #expect(try secret("export", "later").status == 75)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("later")))
    }

    @Test("rotate brings secrets along; --forget is refused while one needs the old keys")
    func rotation() throws {
        _ = try secret("add", Self.imap, value: "one")
        let passcode = Data((CommandSandbox.passcode + "\n").utf8)
        try sandbox.put("", at: "empty/x")
        let rotated = try sandbox.run(["rotate", "--root", "empty", "--passcode-fd", "3"], passcodes: passcode)
        #expect(rotated.status == 0, "\(rotated.errors)")
        #expect(try secret("rewrap", "--check").status == 0)
        let forget = ["rotate", "--forget", "--yes", "--root", "empty", "--passcode-fd", "3"]
        #expect(try sandbox.run(forget, passcodes: passcode).status == 0)
        #expect(try secret("get", Self.imap).text == "one\n")
        // As if the sibling had not been there.
        let bag = try Keybag(at: FilePath(sandbox.keybagDirectory))
        let phrase = SecretBytes(byteCount: CommandSandbox.passcode.utf8.count) {
            $0.copyBytes(from: CommandSandbox.passcode.utf8)
        }
        try sandbox.derivingAlike { try bag.open(passcode: phrase).rotate(passcode: phrase, iterations: 1000) }
        #expect(try secret("rewrap", "--check").status == 77)
        let refused = try sandbox.run(forget, passcodes: passcode)
        #expect(
            refused.status == 77 && refused.errors.contains("hint: first: protectfs rotate --resume"),
            "\(refused.errors)"
        )
        #expect(try sandbox.run("rotate", "--resume", "--root", "empty").status == 0)
        #expect(try sandbox.run(forget, passcodes: passcode).status == 0)
        #expect(try secret("get", Self.imap).text == "one\n")
    }

    @Test("erase destroys the store")
    func erase() throws {
        _ = try secret("add", Self.imap, value: "one")
        #expect(try sandbox.run("erase", "--yes").status == 0)
        #expect(!FileManager.default.fileExists(atPath: sandbox.keybagDirectory))
    }

    @Test("Nothing of a value is in argv, in the environment or in a message", arguments: ["add", "set"])
    func usage(_ verb: String) throws {
        for words in [[], ["--port", "1"], ["--service", "a", "--host", "b"], ["--identity", "a", "--account", "b"]] {
            #expect(try secret(verb, words, value: "a").status == 64, "\(words)")
        }
    }
}
