import Foundation
import Testing

/// Disks that fail at one call. What the command says of the codes must be what is.
@Suite("Recovery on a failing disk", .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
struct RecoveryFailureTests {
    private let sandbox: CommandSandbox
    init() throws { sandbox = try CommandSandbox() }

    /// `passcode --with-recovery-code` while strace(1) makes a call fail; `when` as it writes it.
    private func recover(with code: String, failing call: String, when: String) throws -> Finished {
        let script = """
            strace -f -qq -o /dev/null -e trace=\(call) -e inject=\(call):error=EIO:when=\(when) "$PROTECTFS" \
                passcode --with-recovery-code --recovery-code-fd 0 --new-passcode-fd 0
            """
        return try sandbox.shell(script, input: Data("\(code)\nnew\n".utf8))
    }

    private func areCopiesEqual() throws -> Bool {
        let files = try sandbox.keybagFiles()
        return files["keybag.0"] == files["keybag.1"]
    }

    @Test("A rename that the disk does not confirm: the second copy is written all the same, and confirmed")
    func firstFlush() throws {
        let code = try sandbox.makeRecoveryCode()
        let done = try recover(with: code, failing: "fsync", when: "2")
        #expect(done.status == 0 && done.errors.contains("warning: one copy of keybag"), "\(done.errors)")
        #expect(try areCopiesEqual())
        try sandbox.expectSpent(code, butNot: #require(done.recoveryCode))
    }

    @Test("No copy confirmed: 74, and neither code is called void", arguments: ["2..4+2", "2+"])
    func noFlush(when: String) throws {
        let code = try sandbox.makeRecoveryCode()
        let done = try recover(with: code, failing: "fsync", when: when)
        #expect(done.status == 74 && done.errors.contains("did not confirm it"), "\(done.errors)")
        #expect(done.errors.contains("keep the old and the new passcode and recovery code"))
        #expect(!done.errors.contains("void"))
        #expect(try sandbox.recover(with: #require(done.recoveryCode)).status == 0, "as long as there is no power cut")
    }

    @Test(
        "The second copy fails: the new code counts; a warning says that the old copy may open as before",
        arguments: [("fsync", "3"), ("rename", "2")])
    func secondCopy(call: String, when: String) throws {
        let code = try sandbox.makeRecoveryCode()
        let done = try recover(with: code, failing: call, when: when)
        #expect(done.status == 0 && done.errors.contains("may still be the old version and open as before"))
        #expect(try !areCopiesEqual())
        #expect(try sandbox.unlocks(with: "new") == 0)
        #expect(try areCopiesEqual(), "the next unlock writes it")
        try sandbox.expectSpent(code, butNot: #require(done.recoveryCode))
    }

    @Test(
        "Before the first rename nothing has changed, and so it is said", arguments: [("fsync", "1"), ("rename", "1")])
    func firstCopy(call: String, when: String) throws {
        let code = try sandbox.makeRecoveryCode()
        let done = try recover(with: code, failing: call, when: when)
        #expect(done.status == 74 && done.errors.contains("the recovery code shown is void, the old one is not"))
        #expect(try sandbox.unlocks(with: CommandSandbox.passcode) == 0)
        #expect(try sandbox.recover(with: code).status == 0)
    }

    @Test("init: where the code shown is called void, no keybag is there")
    func initialise() throws {
        var (number, isVoid) = (0, 0)
        while true {
            number += 1
            let fresh = try CommandSandbox(makesKeybag: false)
            let script = """
                echo one | strace -f -qq -o trace -e trace=fsync -e inject=fsync:error=EIO:when=\(number) \
                    "$PROTECTFS" init --recovery-code --passcode-fd 0
                """
            let done = try fresh.shell(script)
            guard try fresh.shell("grep -q INJECTED trace").status == 0 else { break }
            #expect(done.errors.contains("is void") == (done.status == 74), "fsync \(number): \(done.errors)")
            let isThere = FileManager.default.fileExists(atPath: fresh.keybagDirectory)
            #expect(isThere == (done.status == 0), "fsync \(number)")
            isVoid += done.status == 74 ? 1 : 0
            #expect(try fresh.shell("ls -A | grep protectfs-unfinished").text == "", "fsync \(number)")
        }
        #expect(isVoid > 5)
    }
}
