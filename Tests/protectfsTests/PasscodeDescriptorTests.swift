import Foundation
import Testing

@Suite("Passcodes from a file descriptor")
struct PasscodeDescriptorTests {
    /// Makes a keybag with `first`, then unlocks with `second`.
    private func statuses(_ first: Data, _ second: Data) throws -> (made: Int32, unlocked: Int32) {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let made = try sandbox.run("init", "--passcode-fd", "3", passcodes: first).status
        try sandbox.run("lock")
        return (made, try sandbox.run("unlock", "--passcode-fd", "3", passcodes: second).status)
    }

    @Test("1,024 bytes are taken, up to a newline, a NUL or the end")
    func ends() throws {
        let longest = Data(repeating: UInt8(ascii: "x"), count: 1024)
        #expect(try statuses(longest, longest + Data("\nmore".utf8)) == (0, 0))
        #expect(try statuses(Data("abc\0def".utf8), Data("abc".utf8)) == (0, 0))
    }

    @Test("1,025 bytes and an empty line are refused, and nothing at all may come later; nothing is made")
    func refused() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let wrong = [
            (Data(repeating: 120, count: 1025), 64), (Data(repeating: 120, count: 5000), 64), (Data("\n".utf8), 64),
            (Data(), 75 as Int32),
        ]
        for (passcode, status) in wrong {
            let done = try sandbox.run("init", "--passcode-fd", "3", passcodes: passcode)
            #expect(done.status == status)
            #expect(!FileManager.default.fileExists(atPath: sandbox.keybagDirectory))
        }
    }

    @Test("A descriptor that is not open, and none without a terminal, are usage errors")
    func missing() throws {
        let sandbox = try CommandSandbox()
        #expect(try sandbox.run("unlock", "--passcode-fd", "-1").status == 64)
        // The sandbox opens 3. Among the others are numbers of files that the command opens itself.
        for number in 4...12 {
            let done = try sandbox.run("unlock", "--passcode-fd", "\(number)")
            #expect(done.status == 64)
            #expect(
                done.errors == """
                    protectfs: error: the value '\(number)' is invalid for '--passcode-fd <n>': descriptor \(number) is not open
                    protectfs: hint: give it an open descriptor: --passcode-fd 3 3<FILE; see protectfs unlock --help

                    """)
        }
        let asked = try sandbox.run("unlock")
        #expect(asked.status == 64)
        #expect(asked.errors.contains("--passcode-fd"))
    }

    @Test(
        "Every option that takes a descriptor has one form, and refuses the same numbers in the same words",
        arguments: [
            ["unlock", "--passcode-fd"], ["unlock", "--only-first-unlock", "--secret-fd"],
            ["passcode", "--new-passcode-fd"],
            ["passcode", "--with-recovery-code", "--recovery-code-fd"], ["backup", "--to", "x", "--passphrase-fd"],
            ["restore", "x", "--to", "y", "--passphrase-fd"], ["rncryptor", "seal", "x", "--password-fd"],
            ["rncryptor", "open", "x", "-o", "y", "--key-fd"], ["password", "hash", "--password-fd"],
            ["secret", "add", "--account", "a", "--value-fd"], ["secret", "add", "--identity", "a", "--passphrase-fd"],
            ["download", "key", "add", "k", "--key-fd"], ["download", "get", "https://localhost/a", "--bearer-fd"],
            ["download", "get", "https://localhost/a", "--user", "a", "--password-fd"],
            ["download", "get", "https://localhost/a", "--identity", "x", "--identity-passcode-fd"],
        ])
    func oneForm(words: [String]) throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let option = words.last ?? ""
        for (value, reason) in [
            ("9", "descriptor 9 is not open"), ("8", "descriptor 8 is not open for reading"),
            ("x", "it is not the number of a descriptor"), ("+3", "it is not the number of a descriptor"),
            ("3x", "it is not the number of a descriptor"), ("99999999999", "it is not the number of a descriptor"),
        ] {
            let done = try sandbox.shell(#"exec "$PROTECTFS" "$@" 8>/dev/null"#, ["sh"] + words + [value])
            #expect(done.status == 64, "\(words) \(value)")
            #expect(
                done.errors.hasPrefix(
                    """
                    protectfs: error: the value '\(value)' is invalid for '\(option) <n>': \(reason)
                    protectfs: hint: give it an open descriptor: \(option) 3 3<FILE; see protectfs \(words[0])
                    """), "\(done.errors)")
        }
    }

    @Test("No option takes a secret from a named file, and each one that takes a descriptor is in the test above")
    func allForms() throws {
        let verbs = try CommandSurface.ofProgram().verbs
        let options = verbs.reduce(Set<String>()) { $0.union($1.options) }
        let known: Set<String> = [
            "--passcode-fd", "--new-passcode-fd", "--recovery-code-fd", "--passphrase-fd", "--password-fd", "--key-fd",
            "--value-fd", "--bearer-fd", "--identity-passcode-fd", "--secret-fd",
        ]
        #expect(options.filter { $0.hasSuffix("-fd") } == known)
        #expect(options.filter { $0.contains(#/(passcode|password|passphrase|key|secret|code)-file/#) }.isEmpty)
    }

    @Test("A pipe that gives the passcode piecemeal is read to the newline, and no further")
    func pipe() throws {
        let sandbox = try CommandSandbox()
        let script = """
            { printf 'a passcode '; sleep 0.2; printf 'for tests\\nrest\\n'; } |
                { "$PROTECTFS" unlock --passcode-fd 3 3<&0 && cat; }
            """
        let done = try sandbox.shell(script)
        #expect(done.status == 0)
        #expect(done.text == "rest\n")
    }

    @Test("One descriptor serves the current and the new passcode, one a line")
    func change() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        let both = Data("\(CommandSandbox.passcode)\nanother one\n".utf8)
        let done = try sandbox.run("passcode", "--passcode-fd", "3", "--new-passcode-fd", "3", passcodes: both)
        #expect(done.status == 0, "\(done.errors)")
        try sandbox.run("lock")
        let old = try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data(CommandSandbox.passcode.utf8))
        #expect(old.status == 77)
        #expect(try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data("another one".utf8)).status == 0)
    }

    @Test("A passcode is changed only while unlocked, and before anything is asked")
    func changeWhileLocked() throws {
        let sandbox = try CommandSandbox()
        // Descriptor 3 is empty: a passcode that is read from it would be 64.
        #expect(try sandbox.run("passcode", "--passcode-fd", "3", "--new-passcode-fd", "3").status == 75)
    }
}
