import Foundation
import Testing

@Suite(
    "Examples/UpgradeAtLaunch", .enabled(if: Example.areBuilt, "the examples are not built: Tests/build builds them"))
struct UpgradeAtLaunchTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    /// What the program prints.
    private func output() throws -> String {
        let program = Example.path("UpgradeAtLaunch")
        let process = sandbox.start(program, ["documents"], input: FileHandle.nullDevice)
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }

    @Test("Plaintext at the first start, nothing at the second; while locked it waits for the unlock")
    func starts() throws {
        for number in 1...3 { try sandbox.put("\(number)", at: "documents/\(number)") }
        #expect(try output() == "at work\n3 protected, 0 raised, 0 as they were\n")
        #expect(try output() == "at work\n0 protected, 0 raised, 3 as they were\n")
        try sandbox.put("4", at: "documents/4")
        try sandbox.run("lock")
        #expect(try output() == "at work\n0 protected, 0 raised, 3 as they were\n1 wait for the next unlock\n")
        try sandbox.unlock("--wait")
        #expect(try sandbox.run("cat", "documents/4").text == "4")
    }
}
