import Foundation
import Testing

extension CommandSandbox {
    /// A file with redo records in it, and its writer.
    func startWriter(of name: String) throws -> Process {
        try FileManager.default.createDirectory(
            atPath: URL(fileURLWithPath: path(name)).deletingLastPathComponent().path, withIntermediateDirectories: true
        )
        try protectedFile(name, Data(repeating: 5, count: 100_000))
        let worker = URL(fileURLWithPath: Self.executable).deletingLastPathComponent()
            .appendingPathComponent("storm-worker").path
        let (input, output) = (Pipe(), Pipe())
        let process = start(worker, [keybagDirectory, "serve"], input: input)
        process.standardOutput = output
        try process.run()
        for line in ["open w \(path(name))", "write 100 50 1", "sync", "write 70000 50 2", "sync"] {
            try input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
            let answer = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
            #expect(answer.hasPrefix("ok"), "\(line): \(answer)")
        }
        return process
    }
}
