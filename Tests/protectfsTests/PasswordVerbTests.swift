import Foundation
import Testing

@Suite("password hash and verify")
struct PasswordVerbTests {
    private let sandbox: CommandSandbox
    init() throws { sandbox = try CommandSandbox(makesKeybag: false) }

    private func password(_ words: [String], _ password: String = "a password", input: String = "") throws -> Finished {
        try sandbox.run(
            ["password"] + words + ["--password-fd", "3"], input: Data(input.utf8), passcodes: Data(password.utf8))
    }

    private func hashed(_ words: String...) throws -> String {
        let done = try password(["hash"] + words)
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.errors == "")
        #expect(done.text.hasSuffix("\n"))
        return String(done.text.dropLast())
    }

    private static let ofAnn = ["--site", "example.org", "--user", "ann"]

    @Test("verify accepts the output of hash with the right password only")
    func life() throws {
        let encoded = try hashed("--iterations", "600000")
        #expect(encoded.wholeMatch(of: #/\$pbkdf2-sha256\$i=600000,l=32\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}/#) != nil)
        let right = try password(["verify", encoded])
        #expect(right.status == 0)
        #expect(right.text + right.errors == "")
        let wrong = try password(["verify", encoded], "another password")
        #expect(wrong.status == 77)
        #expect(wrong.text == "")
        #expect(wrong.errors == "protectfs: error: wrong password\n")
    }

    @Test("Without --iterations there are 600,000 or more")
    func calibrated() throws {
        let match = try #require(try hashed().wholeMatch(of: #/\$pbkdf2-sha256\$i=([0-9]+),.*/#))
        #expect(Int(match.output.1)! >= 600_000)
    }

    @Test("With --site and --user it is the verifier of the client's key", arguments: ["16", "20", "32"])
    func clientKey(length: String) throws {
        let encoded = try hashed("--iterations", "10000", "--length", length, "--site", "example.org", "--user", "ann")
        #expect(encoded.hasPrefix("$client-pbkdf2-sha256$i=10000,l=\(length)$"))
        #expect(try password(["verify", encoded] + Self.ofAnn).status == 0)
        #expect(try password(["verify", encoded] + Self.ofAnn, "other").status == 77)
        #expect(try password(["verify", encoded, "--site", "example.org", "--user", "bob"]).status == 77)
        #expect(try password(["verify", encoded, "--site", "example.com", "--user", "ann"]).status == 77)
        let nobody = try password(["verify", encoded])
        #expect(nobody.status == 64)
        #expect(nobody.errors.contains("it needs --site and --user"))
    }

    @Test("Python's hashlib makes the same of the same, from the string alone")
    func python() throws {
        let script = """
            import base64, hashlib, sys
            def decode(text): return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
            _, _, cost, salt, digest = sys.argv[1].split("$")
            count = int(cost.split(",")[0][2:])
            print(hashlib.pbkdf2_hmac("sha256", b"a password", decode(salt), count) == decode(digest))
            _, _, cost, digest = sys.argv[2].split("$")
            count = int(cost.split(",")[0][2:])
            key = hashlib.pbkdf2_hmac("sha256", b"a password", b"example.org:ann", count, 20)
            print(hashlib.sha256(key).digest() == decode(digest))
            """
        let hash = try hashed("--iterations", "12345")
        let verifier = try hashed(
            "--iterations", "54321", "--length", "20", "--site", "example.org", "--user", "ann")
        #expect(try sandbox.shell("exec python3 -c \"$0\" \"$@\"", [script, hash, verifier]).text == "True\nTrue\n")
    }

    @Test("The string comes by a pipe too, and the password behind it")
    func input() throws {
        let encoded = try hashed("--iterations", "600000")
        #expect(try password(["verify"], input: encoded + "\n").status == 0)
        #expect(try password(["verify"], input: encoded).status == 0)
        let both = Data("\(encoded)\na password\n".utf8)
        #expect(try sandbox.run("password", "verify", "--password-fd", "0", input: both).status == 0)
        #expect(try password(["verify"]).status == 65)
    }

    @Test("Few iterations are hinted at when the password is right, and only then")
    func rehash() throws {
        let encoded = try hashed("--iterations", "599999")
        let done = try password(["verify", encoded])
        #expect(done.status == 0)
        #expect(done.errors.hasPrefix("protectfs: hint: hash the password again, with more than 599999 iterations"))
        #expect(try password(["verify", encoded, "--iterations", "599999"]).errors == "")
        #expect(try !password(["verify", encoded], "other").errors.contains("hint"))
        // A client may have calibrated to less: only what is asked for is said.
        let verifier = try hashed("--iterations", "20000", "--site", "example.org", "--user", "ann")
        #expect(try password(["verify", verifier] + Self.ofAnn).errors == "")
        #expect(try password(["verify", verifier, "--iterations", "20001"] + Self.ofAnn).errors.contains("20000"))
    }

    @Test("As JSON, right and wrong")
    func json() throws {
        let encoded = try hashed("--iterations", "10000")
        for (given, isRight) in [("a password", true), ("other", false)] {
            let done = try password(["verify", "--json", encoded], given)
            #expect(done.status == (isRight ? 0 : 77))
            let object = try #require(done.json() as? [String: Any])
            #expect(object["verified"] as? Bool == isRight)
            #expect(object["iterations"] as? Int == 10_000)
            #expect(object["needsRehash"] as? Bool == true)
            #expect(object.count == 3)
            #expect(!done.errors.contains("hint"))
        }
    }

    @Test(
        "A string that is none is status 65, before a password is asked for",
        arguments: [
            "", "x", "$6$rounds=5000$salt$hash", "$pbkdf2-sha256$i=9999,l=32$AAECAwQFBgcICQoLDA0ODw$",
            "$client-pbkdf2-sha256$i=10000,l=32$", "$pbkdf2-sha256$i=100000001,l=32$AAECAwQFBgcICQoLDA0ODw$AA",
            "\u{FFFD}", "é",
        ])
    func malformed(encoded: String) throws {
        for words in [[encoded], []] {
            // Descriptor 3 is empty: a password that is read from it would be 64.
            let done = try sandbox.run(
                ["password", "verify"] + words + ["--password-fd", "3"], input: Data((encoded + "\n").utf8))
            #expect(done.status == 65, "\(done.errors)")
            #expect(done.errors.contains("this is not a hash of protectfs password hash"))
            #expect(encoded.isEmpty || !done.errors.contains(encoded + ":"))
        }
    }

    @Test(
        "Invalid arguments are a usage error, and nothing is printed to standard output",
        arguments: [
            ["hash", "--iterations", "9999"], ["hash", "--iterations", "0"], ["hash", "--iterations", "-1"],
            ["hash", "--iterations", "100000001"], ["hash", "--iterations", "many"],
            ["hash", "--site", "example.org"], ["hash", "--user", "ann"], ["hash", "--length", "16"],
            ["hash", "--site", "example.org", "--user", "ann", "--length", "24"],
            ["hash", "--iterations", "10000", "--site", "example.org:443", "--user", "ann"],
            ["hash", "--iterations", "10000", "--site", "", "--user", "ann"],
            ["hash", "--iterations", "10000", "--site", "example.org", "--user", ""],
            ["verify", "--iterations", "9999", "$pbkdf2-sha256$"], ["hash", "a password"],
        ])
    func usage(words: [String]) throws {
        let done = try password(words)
        #expect(done.status == 64, "\(done.errors)")
        #expect(done.text == "")
        #expect(done.errors.hasPrefix("protectfs: error: "))
    }

    @Test("A site or user that is not UTF-8 is refused: it would make the key of another one")
    func notUTF8() throws {
        let script =
            "exec \"$PROTECTFS\" password hash --site example.org --user \"$(printf 'a\\377')\" --password-fd 0"
        let done = try sandbox.shell(script, input: Data("a password".utf8))
        #expect(done.status == 64)
        #expect(done.errors.contains("UTF-8"))
    }

    @Test("--site and --user with a hash that has a salt of its own are a usage error")
    func saltOfItsOwn() throws {
        #expect(try password(["verify", hashed("--iterations", "10000")] + Self.ofAnn).status == 64)
    }

    @Test("An empty password and one of 1,025 bytes are refused, one of 1,024 is not")
    func bounds() throws {
        for unusable in ["", "\n", String(repeating: "x", count: 1025)] {
            let done = try password(["hash", "--iterations", "10000"], unusable)
            #expect(done.status == 64)
            #expect(done.text == "")
        }
        let longest = String(repeating: "x", count: 1024)
        let done = try password(["hash", "--iterations", "10000"], longest)
        let encoded = String(done.text.dropLast())
        #expect(try password(["verify", encoded], longest).status == 0)
        #expect(try password(["verify", encoded], String(longest.dropLast())).status == 77)
        #expect(try password(["verify", encoded], longest + "x").status == 64)
    }

    @Test("At a terminal it is asked for twice without echo, and again when the two differ; verify asks once")
    func terminal() throws {
        let seen = try PseudoTerminal.run(
            ["password", "hash", "--iterations", "10000"], in: sandbox,
            [
                .expect("New password: "), .look, .send("one\n"), .expect("Again: "), .look, .send("other\n"),
                .expect("not the same"), .expect("New password: "), .send("one\n"), .expect("Again: "), .send("one\n"),
            ])
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(seen.echo == [false, false, true])
        #expect(!seen.shown.contains("one\r") && !seen.shown.contains("other"))
        let encoded = try #require(seen.shown.firstMatch(of: #/\$pbkdf2-sha256\$\S+/#)).output
        for (typed, status) in [("one", Int32(0)), ("other", 77)] {
            let verified = try PseudoTerminal.run(
                ["password", "verify", String(encoded)], in: sandbox,
                [.expect("Password: "), .look, .send(typed + "\n")])
            #expect(verified.status == status)
            #expect(verified.echo == [false, true])
        }
    }

    @Test("Without a terminal and a descriptor it says how; a terminal for the string is none")
    func nobody() throws {
        let done = try sandbox.run("password", "hash")
        #expect(done.status == 64)
        #expect(done.errors.contains("--password-fd"))
        let seen = try PseudoTerminal.run(["password", "verify"], in: sandbox, [])
        #expect(seen.status == 64)
        #expect(seen.shown.contains("no hash to check against"))
    }

    @Test(
        "The example: both ways to keep passwords",
        .enabled(if: Example.areBuilt, "the examples are not built: Tests/build builds them"))
    func example() throws {
        let program = Example.path("UserPasswords")
        func run(_ verb: String, _ name: String, _ password: String) throws -> Finished {
            try sandbox.shell("exec \"$0\" users \"$@\"", [program, verb, name], input: Data("\(password)\n".utf8))
        }
        for (new, known) in [("add", "check"), ("register", "login")] {
            #expect(try run(new, "ann-\(known)", "a password").status == 0)
            let right = try run(known, "ann-\(known)", "a password")
            #expect(right.status == 0 && right.text == "yes\n")
            for (name, password) in [("ann-\(known)", "other"), ("nobody", "a password")] {
                let wrong = try run(known, name, password)
                #expect(wrong.status == 77 && wrong.text == "no\n", "\(wrong.errors)")
            }
        }
        let users = String(decoding: try sandbox.stored("users"), as: UTF8.self)
        #expect(users.contains("ann-check $pbkdf2-sha256$i=600000,l=32$"))
        #expect(users.contains("ann-login $client-pbkdf2-sha256$i=600000,l=32$"))
        #expect(!users.contains("a password"))
        // A hash that was made with less is made anew at the next right password.
        let weak = try hashed("--iterations", "10000")
        try sandbox.put("ann-check \(weak)\n", at: "users")
        #expect(try run("check", "ann-check", "other").status == 77)
        #expect(String(decoding: try sandbox.stored("users"), as: UTF8.self) == "ann-check \(weak)\n")
        #expect(try run("check", "ann-check", "a password").status == 0)
        #expect(String(decoding: try sandbox.stored("users"), as: UTF8.self).contains("$i=600000,"))
    }
}
