import Foundation
import Testing

@Suite("Attempts at the passcode")
struct AttemptTests {
    @Test("A passcode is not tried if the disk does not confirm that the attempt was counted")
    func unconfirmed() throws {
        let sandbox = try CommandSandbox()
        guard try sandbox.shell("strace -o /dev/null true").status == 0 else {
            return print("skipped: strace(1) cannot trace here")
        }
        for passcode in ["wrong", CommandSandbox.passcode] {
            let done = try sandbox.shell(
                "exec strace -f --seccomp-bpf -o /dev/null -e inject=fdatasync,fsync:error=EIO "
                    + "\"$PROTECTFS\" unlock --passcode-fd 0", input: Data(passcode.utf8))
            #expect(done.status == 74, "\(done.errors)")
            #expect(done.errors.contains("the attempt cannot be recorded in "))
        }
        #expect(try sandbox.run("status").text.contains("locked, not unlocked since the machine started"))
    }
}
