import Foundation
import TestEffort
import Testing

@testable import DataProtection

@Suite("A recovery that is killed")
struct RecoveryCrashTests {
    /// Killed on its way into one call after the other, until it makes no more of that kind. A slice of them.
    @Test(
        "At every call: the old code opens, or the new one, which was shown before",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot),
        arguments: ["write", "pwrite64", "fsync", "fdatasync", "rename", "symlink"])
    func everyCall(call: String) throws {
        let sandbox = try CommandSandbox()
        var code = try sandbox.makeRecoveryCode()
        var passcode = CommandSandbox.passcode
        var kills = 0
        for number in 1... where number == 1 || Effort.includes(number) {
            let inject = "-e trace=\(call) -e inject=\(call):signal=KILL:when=\(number)"
            let script = """
                strace -f -qq -o /dev/null \(inject) "$PROTECTFS" passcode --with-recovery-code \
                    --recovery-code-fd 0 --new-passcode-fd 0
                """
            let done = try sandbox.shell(script, input: Data("\(code)\npasscode \(number)\n".utf8))
            #expect([0, 137].contains(done.status), "\(call) \(number): \(done.errors)")
            let isOld = try sandbox.opens(with: code)
            let isNew = try done.recoveryCode.map { try sandbox.opens(with: $0) } ?? false
            try #require(isOld != isNew, "\(call) \(number): one of them, and not both")
            if isNew, let shown = done.recoveryCode { (code, passcode) = (shown, "passcode \(number)") }
            #expect(try sandbox.unlocks(with: passcode) == 0, "\(call) \(number)")
            if done.status == 0 { break }
            kills += 1
        }
        #expect(kills > 0, "it makes such a call")
        print("storm, recovery, at every \(call): \(kills) kills")
    }
}

extension CommandSandbox {
    /// Whether the code opens the keybag.
    fileprivate func opens(with code: String) throws -> Bool {
        let text = Array(code.utf8)
        let code = try RecoveryCode(reading: SecretBytes(byteCount: text.count) { $0.copyBytes(from: text) })
        do throws(DataProtectionError) {
            _ = try derivingAlike { () throws(DataProtectionError) in
                try Keybag(at: FilePath(keybagDirectory)).open(recoveryCode: code)
            }
            return true
        } catch {
            guard case .because(KeybagFailure.wrongRecoveryCode) = error else { throw error }
            return false
        }
    }
}
