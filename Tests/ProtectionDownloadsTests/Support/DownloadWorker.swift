import Foundation

/// `download-worker`: a process that runs the list of a keybag until a test kills it.
enum DownloadWorker {
    /// The built worker, beside this test's bundle.
    private static let executable = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("download-worker").path

    /// Starts one.
    ///
    /// - Parameter wrapper: a command that runs it.
    static func start(_ bed: DownloadBed, _ further: String..., wrapper: [String] = []) throws -> Process {
        let words = wrapper + [executable, bed.keybag.directory.string] + further
        let process = Process()
        process.executableURL = URL(fileURLWithPath: words[0])
        process.arguments = Array(words.dropFirst())
        process.standardInput = FileHandle.nullDevice
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
        try process.run()
        return process
    }

    /// Does what goes on by itself.
    ///
    /// - Returns: the exit status.
    static func runUntilIdle(_ bed: DownloadBed) throws -> Int32 {
        let process = try start(bed, "idle")
        process.waitUntilExit()
        return process.terminationStatus
    }

    /// The same, killed by strace(1) on the way into the call of that name and number, counted in each thread from 1.
    ///
    /// - Returns: whether it was: false if it came to its end before.
    static func isKilled(_ bed: DownloadBed, at call: String, _ number: Int) throws -> Bool {
        let inject = "inject=\(call):signal=KILL:when=\(number)"
        let process = try start(bed, "idle", wrapper: tracing([call]) + ["-o", "/dev/null", "-e", inject])
        process.waitUntilExit()
        if process.terminationReason == .uncaughtSignal { return true }
        guard process.terminationStatus == 0 else { throw Failed(status: process.terminationStatus) }
        return false
    }

    /// The start of a command that notes these calls of what follows, with the paths of descriptors.
    static func tracing(_ calls: [String]) -> [String] {
        ["/usr/bin/strace", "-qq", "-f", "-y", "-e", "trace=" + calls.joined(separator: ",")]
    }

    struct Failed: Error { let status: Int32 }

    /// Whether there is an strace(1) that may trace.
    static let canTrace: Bool = {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/strace")
        process.arguments = ["-qq", "-o", "/dev/null", "true"]
        process.standardInput = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }()
}
