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

    @Test("1,025 bytes and none are refused, and nothing is made")
    func refused() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        for passcode in [Data(repeating: 120, count: 1025), Data(repeating: 120, count: 5000), Data(), Data("\n".utf8)]
        {
            let done = try sandbox.run("init", "--passcode-fd", "3", passcodes: passcode)
            #expect(done.status == 64)
            #expect(!FileManager.default.fileExists(atPath: sandbox.keybagDirectory))
        }
    }

    @Test("A descriptor that is not open, and none without a terminal, are usage errors")
    func missing() throws {
        let sandbox = try CommandSandbox()
        #expect(try sandbox.run("unlock", "--passcode-fd", "9").status == 64)
        #expect(try sandbox.run("unlock", "--passcode-fd", "-1").status == 64)
        let asked = try sandbox.run("unlock")
        #expect(asked.status == 64)
        #expect(asked.errors.contains("--passcode-fd"))
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
        #expect(try sandbox.run("passcode", "--passcode-fd", "9", "--new-passcode-fd", "9").status == 75)
    }
}
