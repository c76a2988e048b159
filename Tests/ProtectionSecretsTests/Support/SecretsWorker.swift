import DataProtection
import Foundation

/// `secrets-worker`: another process that uses a store.
final class SecretsWorker {
    let process = Process()
    private let output = Pipe()
    private let input = Pipe()

    /// Starts one.
    static func start(_ bed: SecretsBed, _ words: String...) throws -> SecretsWorker { try start(bed.keybag, words) }

    static func start(_ keybag: Keybag, _ words: [String]) throws -> SecretsWorker {
        let worker = SecretsWorker()
        worker.process.executableURL = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appendingPathComponent("secrets-worker")
        worker.process.arguments = [keybag.directory.string] + words
        worker.process.standardInput = worker.input
        worker.process.standardOutput = worker.output
        worker.process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) {
            $1
        }
        try worker.process.run()
        return worker
    }

    /// The next piece of what it says; empty at its end.
    func next() -> Data { output.fileHandleForReading.availableData }

    /// Everything that it says until it ends.
    func lines() throws -> [String] {
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        return text.split(separator: "\n").map(String.init)
    }

    /// Lets a worker that waits for a byte go on.
    func step() throws { try input.fileHandleForWriting.write(contentsOf: Data([0])) }

    func end() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    func kill() {
        Glibc.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}
