import Foundation
import Testing

/// A generator in a process's memory is part of a virtual machine's snapshot, and repeats what it gave when the machine is resumed twice.
@Suite("Random bytes", .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
struct KernelRandomnessTests {
    @Test("Nonces are drawn from the kernel for each seal")
    func nonces() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.put("text\n", at: "plain")
        let script = "exec strace -f -qq -e trace=getrandom -o trace \"$PROTECTFS\" write new <plain"
        let done = try sandbox.shell(script)
        #expect(done.status == 0, "\(done.errors)")
        let calls = try sandbox.shell("cat trace").text.split(separator: "\n")
        // Two heads, each with a record or two: 12 bytes for every nonce, 32 for every key, and no generator's seed instead of them.
        func count(_ bytes: Int) -> Int { calls.count { $0.contains(", \(bytes), 0) ") && $0.hasSuffix("= \(bytes)") } }
        #expect(count(12) >= 2 && count(32) >= 1, "\(calls)")
    }
}
