import Foundation
import Testing

/// Under a seccomp profile that refuses keyring calls, as containers have by default.
@Suite("A keyring that is refused")
struct RefusedKeyringTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    /// Runs a command whose keyring calls fail.
    private func run(_ error: String, _ command: String) throws -> Finished {
        try sandbox.shell(
            "exec strace -f --seccomp-bpf -o /dev/null -e trace=keyctl,add_key,request_key "
                + "-e inject=keyctl,add_key,request_key:error=\(error) \"$PROTECTFS\" \(command)",
            input: Data("text".utf8))
    }

    @Test(
        "Classes none and unless-open can be written, because neither needs the ring", arguments: ["EPERM", "ENOSYS"])
    func writing(error: String) throws {
        guard try sandbox.shell("strace -o /dev/null true").status == 0 else {
            return print("RefusedKeyringTests.writing skipped: strace(1) cannot trace here")
        }
        for name in ["none", "unless-open"] {
            let done = try run(error, "write --class \(name) \(name)")
            #expect(done.status == 0, "\(done.errors)")
            let again = try run(error, "write --class \(name) \(name)")
            #expect(again.status == 0, "\(again.errors)")
            #expect(try sandbox.run("cat", name).text == "text")
            let origin = (try sandbox.run("explain", "--stored", "--json", name).json() as? [[String: Any]])?.first?[
                "origin"]
            #expect(origin as? String == "this device", "class key C could not vouch for it")
        }
        #expect(try run(error, "cat none").text == "text")
        for name in ["complete", "first-unlock"] {
            let done = try run(error, "write --class \(name) \(name)")
            #expect(done.status == 69 && done.errors.contains("the kernel keyring cannot be used"), "\(done.errors)")
        }
    }
}
