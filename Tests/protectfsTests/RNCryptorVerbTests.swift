import Foundation
import Testing

@Suite("rncryptor: sealed and opened")
struct RNCryptorVerbTests {
    private let sandbox: CommandSandbox
    private static let password = Data("correct horse battery".utf8)
    private static let keys = Data((100..<164).map { UInt8($0) })

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func bytes(_ count: Int) -> Data { Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }) }

    private func export(_ arguments: String..., secret: Data = password, option: String = "--password-fd") throws
        -> Finished
    {
        try sandbox.run(["rncryptor", "seal", option, "3"] + arguments, passcodes: secret)
    }

    private func importing(
        _ arguments: String..., input: Data = Data(), secret: Data = password, option: String = "--password-fd"
    ) throws -> Finished {
        try sandbox.run(["rncryptor", "open", option, "3"] + arguments, input: input, passcodes: secret)
    }

    /// The same from a pipe: `input` of a command in this sandbox is a file, which can be read twice.
    private func piping(_ input: Data, _ arguments: String..., secret: Data = password) throws -> Finished {
        try secret.write(to: URL(fileURLWithPath: sandbox.path(".run-secret")))
        return try sandbox.shell(
            "cat | \"$PROTECTFS\" rncryptor open --password-fd 3 - \"$@\" 3<.run-secret", ["sh"] + arguments,
            input: input)
    }

    private func names() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: sandbox.root).filter { !$0.hasPrefix(".passcodes") }
            .filter { !$0.hasPrefix(".run-") }.sorted()
    }

    @Test(
        "An exported file is imported with the same bytes",
        arguments: [0, 1, 15, 16, 4096, 1_048_575, 1_048_576, 3_000_001])
    func roundTrip(size: Int) throws {
        let data = bytes(size)
        try sandbox.protectedFile("file", data)
        let exported = try export("file")
        #expect(exported.status == 0 && exported.text == "")
        #expect(exported.errors.split(separator: "\n").count == 1 && exported.errors.contains("10,000 rounds"))
        #expect(try sandbox.stored("file.rncryptor").count == 34 + (size / 16 + 1) * 16 + 32)
        #expect(try sandbox.shell("stat -c %a file.rncryptor").text == "600\n")

        let done = try importing("file.rncryptor", "-o", "copy")
        #expect(done.status == 0 && done.text + done.errors == "")
        #expect(try sandbox.run("cat", "copy").output == data)
        #expect(try sandbox.run("class", "copy").text == "complete\n")
        #expect(try importing("file.rncryptor", "-o", "-").output == data)
        let message = try sandbox.stored("file.rncryptor")
        #expect(try piping(message, "-o", "piped", "--class", "unless-open").status == 0)
        #expect(try importing("-", "-o", "redirected", input: message).status == 0)
        #expect(try sandbox.run("cat", "redirected").output == data)
        #expect(try sandbox.run("cat", "piped").output == data)
        #expect(try sandbox.run("class", "piped").text == "unless-open\n")
    }

    @Test("Keys in place of a password; nothing is weak then, and nothing is said")
    func keys() throws {
        try sandbox.protectedFile("file", bytes(100_000))
        let exported = try export("file", "-o", "message", secret: Self.keys, option: "--key-fd")
        #expect(exported.status == 0 && exported.errors == "")
        #expect(try sandbox.stored("message").prefix(2) == Data([3, 0]))
        #expect(try importing("message", "-o", "copy", secret: Self.keys, option: "--key-fd").status == 0)
        #expect(try sandbox.run("cat", "copy").output == bytes(100_000))
        let piped = try sandbox.shell(
            """
            "$PROTECTFS" rncryptor seal file -o - --key-fd 3 3<"$0" |
            "$PROTECTFS" rncryptor open - -o again --key-fd 3 3<"$0" && exec "$PROTECTFS" cat again
            """, [keyFile()])
        #expect(piped.output == bytes(100_000))
        for wrong in [Self.keys.dropLast(), Self.keys + Data([0])] {
            #expect(try importing("message", "-o", "x", secret: Data(wrong), option: "--key-fd").status == 64)
        }
    }

    private func keyFile() throws -> String {
        try Self.keys.write(to: URL(fileURLWithPath: sandbox.path("keys")))
        return "keys"
    }

    @Test("A wrong password and altered bytes: one and the same error, and no file, not even for a moment's sake")
    func refused() throws {
        try sandbox.protectedFile("file", bytes(2_000_000))
        #expect(try export("file", "-o", "message").status == 0)
        try sandbox.protectedFile("there", Data("as it was".utf8))
        let before = try names()
        let message = try sandbox.stored("message")
        var said: Set<String> = []
        for (name, index) in [("message", nil), ("a", 2), ("b", 40), ("c", 1_500_000), ("d", message.count - 1)] {
            var altered = message
            if let index { altered[index] ^= 1 }
            try altered.write(to: URL(fileURLWithPath: sandbox.path(name)))
            let secret = index == nil ? Data("wrong".utf8) : Self.password
            for arguments in [[name, "-o", "new"], [name, "-o", "there", "--replace"], [name, "-o", "-"]] {
                let done = try sandbox.run(["rncryptor", "open", "--password-fd", "3"] + arguments, passcodes: secret)
                #expect(done.status == 77 && done.output == Data())
                said.insert(done.errors.replacingOccurrences(of: "'\(name)'", with: "FILE"))
            }
            let piped = try piping(altered, "-o", "new", secret: secret)
            #expect(piped.status == 77)
            said.insert(piped.errors.replacingOccurrences(of: "standard input", with: "FILE"))
            if index != nil { unlink(sandbox.path(name)) }
        }
        #expect(said.count == 1)
        #expect(said.first?.contains("or the file was altered") == true)
        #expect(try names() == before)
        #expect(try sandbox.run("cat", "there").text == "as it was")
    }

    @Test("Every other refusal has its own words and status")
    func refusals() throws {
        try sandbox.protectedFile("file")
        #expect(try export("file", "-o", "message").status == 0)
        #expect(try export("file", "-o", "of-keys", secret: Self.keys, option: "--key-fd").status == 0)
        try sandbox.put("PK\u{3}\u{4} a letter of some length", at: "letter")
        _ = try sandbox.shell(
            "head -c 60 message >cut; printf '\\001\\001%060d' 0 >v1; printf 'RNC\\004%060d' 0 >v4; : >empty; mkdir dir"
        )
        let before = try names()
        func expect(_ status: Int32, _ says: String, _ done: Finished) {
            #expect(done.status == status && done.errors.contains(says), "\(done.status) \(done.errors)")
            #expect(done.output == Data())
        }
        try expect(65, "'letter' is not an RNCryptor file", importing("letter", "-o", "x"))
        try expect(65, "version 1; versions 2 and 3 are read", importing("v1", "-o", "x"))
        try expect(65, "version 4;", importing("v4", "-o", "x"))
        try expect(65, "'cut' is cut short: 60 bytes", importing("cut", "-o", "x"))
        try expect(65, "0 bytes", importing("empty", "-o", "x"))
        try expect(65, "standard input is not an RNCryptor file", piping(Data("text".utf8), "-o", "x"))
        try expect(66, "'missing'", importing("missing", "-o", "x"))
        try expect(77, "'dir' is a directory", importing("dir", "-o", "x"))
        try expect(73, "'file' exists already", importing("message", "-o", "file"))
        try expect(
            64, "with a password, not with keys", importing("message", "-o", "x", secret: Self.keys, option: "--key-fd")
        )
        try expect(64, "with keys, not with a password", importing("of-keys", "-o", "x"))
        try expect(64, "an empty password", importing("message", "-o", "x", secret: Data("\n".utf8)))
        try expect(64, "an empty password", export("file", secret: Data()))
        try expect(64, "longer than the 65536 bytes", export("file", secret: Data(repeating: 0x61, count: 65_537)))
        try expect(64, "can be read only once", piping(sandbox.stored("message"), "-o", "-"))
        try expect(64, "no --class", importing("message", "-o", "-", "--class", "complete"))
        try expect(
            64, "cannot both come from standard input",
            sandbox.run("rncryptor", "open", "-", "-o", "x", "--password-fd", "0"))
        try expect(
            64, "--password-fd or --key-fd",
            sandbox.run("rncryptor", "open", "message", "-o", "x", "--password-fd", "3", "--key-fd", "3"))
        try expect(64, "no terminal", sandbox.run("rncryptor", "open", "message", "-o", "x"))
        try expect(64, "--format", export("file", "--format", "other"))
        try expect(73, "--replace", export("file", "-o", "message"))
        try expect(77, "not a regular file", export("file", "-o", "dir", "--replace"))
        try expect(65, "not a protected file", export("letter"))
        try expect(66, "'missing'", export("missing"))
        try expect(66, "'none'", export("file", "-o", "none/x"))
        #expect(try names() == before)
        try sandbox.run("lock")
        try expect(75, "locked since", export("file", "-o", "x"))
        try expect(75, "locked since", importing("message", "-o", "x", "--class", "complete"))
        #expect(try names() == before)
        // What can be created while locked can be imported, from a pipe too.
        #expect(try importing("message", "-o", "x", "--class", "unless-open").status == 0)
        #expect(try piping(sandbox.stored("message"), "-o", "y", "--class", "unless-open").status == 0)
        try sandbox.unlock()
        #expect(try sandbox.run("cat", "x", "y").text == "text\ntext\n")
    }

    @Test("--replace takes the place of a file, keeps its class, and weakens none by mistake")
    func replacing() throws {
        try sandbox.protectedFile("file", Data("new".utf8))
        try sandbox.put("old message", at: "message")
        #expect(try export("file", "-o", "message", "--replace").status == 0)
        try sandbox.protectedFile("target", Data("old".utf8), "complete")
        #expect(try importing("message", "-o", "target", "--replace").status == 0)
        #expect(try sandbox.run("cat", "target").text == "new")
        #expect(try sandbox.run("class", "target").text == "complete\n")
        #expect(try importing("message", "-o", "target", "--replace", "--class", "none").status == 77)
        #expect(try importing("message", "-o", "target", "--replace", "--class", "none", "--allow-weaker").status == 0)
        #expect(try sandbox.run("class", "target").text == "none\n")
    }

    @Test("A FIFO is read once, and its message waits sealed")
    func fifo() throws {
        try sandbox.protectedFile("file", bytes(3_000_000), "complete")
        #expect(try export("file", "-o", "message").status == 0)
        let done = try sandbox.shell(
            """
            mkfifo pipe; cat message >pipe & exec "$PROTECTFS" rncryptor open pipe -o copy --class complete --password-fd 3 3<"$0"
            """, [passwordFile()])
        #expect(done.status == 0, "\(done.errors)")
        #expect(try sandbox.run("cat", "copy").output == bytes(3_000_000))
    }

    private func passwordFile() throws -> String {
        try Self.password.write(to: URL(fileURLWithPath: sandbox.path("pw")))
        return "pw"
    }

    @Test("Passwords are asked for without echo: twice to seal, once to open")
    func prompts() throws {
        try sandbox.protectedFile("file")
        let exported = try PseudoTerminal.run(
            ["rncryptor", "seal", "file"], in: sandbox,
            [
                .expect("New password: "), .send("one\n"), .expect("Again: "), .send("two\n"), .expect("not the same"),
                .expect("New password: "), .look, .send("pässword\n"), .expect("Again: "), .send("pässword\n"),
            ])
        #expect(exported.status == 0, "\(exported.shown)")
        #expect(exported.echo == [false, true] && !exported.shown.contains("ssword\r"))
        let imported = try PseudoTerminal.run(
            ["rncryptor", "open", "file.rncryptor", "-o", "copy"], in: sandbox,
            [.expect("Password of 'file.rncryptor': "), .look, .send("pässword\n")])
        #expect(imported.status == 0, "\(imported.shown)")
        #expect(imported.echo == [false, true] && !imported.shown.contains("ssword\r"))
        #expect(try sandbox.run("cat", "copy").text == "text\n")
        // A terminal drops what is behind 4,095 bytes: a password that may have been cut is none.
        let long = try PseudoTerminal.run(
            ["rncryptor", "open", "file.rncryptor", "-o", "other"], in: sandbox,
            [.expect("Password of "), .send(String(repeating: "x", count: 4095) + "\n")])
        #expect(long.status == 64, "\(long.shown)")
        #expect(long.shown.contains("longer than the 4094 bytes that a terminal gives"), "\(long.shown)")
    }

    @Test(
        "OpenRNCryptor, the example: prints a sealed message, and nothing of an altered one",
        .enabled(if: Example.areBuilt, "the examples are not built: Tests/build builds them"))
    func example() throws {
        try sandbox.protectedFile("file", bytes(2_500_000))
        #expect(try export("file", "-o", "message").status == 0)
        let program = Example.path("OpenRNCryptor")
        let script = "exec \"$0\" \"$1\" 3<\"$2\""
        #expect(try sandbox.shell(script, [program, "message", passwordFile()]).output == bytes(2_500_000))
        var altered = try sandbox.stored("message")
        altered[altered.count - 40] ^= 1
        try altered.write(to: URL(fileURLWithPath: sandbox.path("altered")))
        let done = try sandbox.shell(script, [program, "altered", passwordFile()])
        #expect(done.status == 65 && done.output == Data() && done.errors.contains("wrongPasswordOrAltered"))
    }
}
