import Foundation
import StormScript

/// `storm-worker … crowd`: a process that reads or writes with the sandbox's keybag through locks and unlocks.
final class CrowdInSandbox {
    private let process: Process
    private let output = Pipe()
    var pid: pid_t { process.processIdentifier }

    /// SIGSTOP. Returns when no thread of it runs any more: one takes the signal and stops the others, which go on until then.
    func stop() {
        kill(pid, SIGSTOP)
        var information = siginfo_t()
        while waitid(P_PID, id_t(pid), &information, WSTOPPED) == -1 && errno == EINTR {}
    }

    /// Where their files are.
    static func directory(_ sandbox: CommandSandbox) -> String { sandbox.path("files") }

    /// Makes the files that they read.
    static func makeFiles(_ sandbox: CommandSandbox) throws {
        let text = Data(pattern(7, count: 10_000))
        for (name, protectionClass) in [("complete", "complete"), ("unless-open-handle", "unless-open")] {
            try sandbox.put("", at: "files/\(name)")
            try sandbox.protectedFile("files/\(name)", text, protectionClass)
        }
    }

    /// Starts it and waits until its files are open.
    ///
    /// - Parameter role: `read`, or `write NAME`.
    init(_ sandbox: CommandSandbox, _ role: [String]) throws {
        let executable = URL(fileURLWithPath: CommandSandbox.executable).deletingLastPathComponent()
            .appendingPathComponent("storm-worker").path
        let arguments = [sandbox.keybagDirectory, "crowd", role[0], Self.directory(sandbox)] + role.dropFirst()
        process = sandbox.start(executable, arguments, input: FileHandle.nullDevice)
        process.standardOutput = output
        try process.run()
        guard line() == "ready" else { throw CommandSandbox.Unexpected("\(role) does not begin") }
    }

    /// What it says next; without the end of the line.
    func line() -> String {
        String(decoding: output.fileHandleForReading.availableData, as: UTF8.self).trimmingCharacters(in: .newlines)
    }

    deinit {
        kill(pid, SIGKILL)  // tests run on threads that block other signals, and so do their children
        process.waitUntilExit()
    }
}
