import Foundation
import Testing

@testable import DataProtection

/// The command does what lasts, and then the class keys do not get into the kernel keyring.
@Suite("Keys that cannot be loaded", .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
struct UnloadedKeysTests {
    /// `arguments` while strace(1) makes a call fail; descriptor 0 gives the passcode.
    private func run(_ sandbox: CommandSandbox, failing fault: String, _ arguments: String) throws -> Finished {
        let script = "strace -f -qq -o trace \(fault) \"$PROTECTFS\" \(arguments) --passcode-fd 0"
        return try sandbox.shell(script, input: Data(CommandSandbox.passcode.utf8))
    }

    @Test("init: a note says that the keybag is created, and a hint gives the next step")
    func initialise() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let done = try run(sandbox, failing: "-e trace=add_key -e inject=add_key:error=EDQUOT", "init")
        #expect(done.status != 0)
        #expect(done.errors.contains("note: keybag '\(sandbox.keybagDirectory)' is created but not unlocked"))
        #expect(done.errors.contains("hint: unlock it: protectfs unlock"), "\(done.errors)")
        try sandbox.unlock()
    }

    /// At each time that the lock counter is read.
    @Test("rotate --forget: a keybag that is locked by it is no silent success")
    func forget() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        var (number, locked) = (0, 0)
        while true {
            number += 1
            let text = CommandSandbox.passcode.utf8
            let passcode = SecretBytes(byteCount: text.count) { $0.copyBytes(from: text) }
            try Keybag(at: FilePath(sandbox.keybagDirectory)).open(passcode: passcode)
                .rotate(passcode: passcode, iterations: 1000)
            let fault = "-P keybag/transition -P \(sandbox.keybagDirectory)/transition -e trace=openat "
            let inject = "-e inject=openat:error=EIO:when=\(number)"
            let done = try run(sandbox, failing: fault + inject, "rotate --forget --yes --root .")
            guard try sandbox.shell("grep -q INJECTED trace").status == 0 else { break }
            let isUnlocked = try sandbox.run("status").text.contains(": unlocked")
            if done.status == 0, !isUnlocked {
                locked += 1
                #expect(done.errors.contains("warning: the keybag is locked now"), "\(number): \(done.errors)")
                #expect(done.errors.contains("hint: unlock it: protectfs unlock"))
            }
            try sandbox.unlock()
        }
        #expect(locked > 0)
    }
}
