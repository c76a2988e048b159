import Foundation
import Testing

@Suite("Examples/ProtectedLog", .enabled(if: Example.areBuilt, "the examples are not built: Tests/build builds them"))
struct ProtectedLogTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    /// The numbers that were printed: lines that are on disk.
    private func acknowledged(_ output: String) throws -> [Int] {
        // A number is only whole with its newline.
        let text = String(decoding: try sandbox.stored(output), as: UTF8.self)
        return text[..<(text.lastIndex(of: "\n") ?? text.startIndex)].split(separator: "\n").compactMap { Int($0) }
    }

    @Test("Through locks, unlocks, rotations and kill -9, each acknowledged line is there exactly once, in order")
    func storm() throws {
        var all: [Int] = []
        var inFlight: Set<Int> = []
        var next = 0
        for round in 0..<8 {
            if round % 3 == 2 { try sandbox.run("lock") }
            let output = sandbox.path("acknowledged-\(round)")
            _ = FileManager.default.createFile(atPath: output, contents: nil)
            let program = Example.path("ProtectedLog")
            let process = sandbox.start(program, ["log", "\(next)", "100000"], input: FileHandle.nullDevice)
            process.standardOutput = FileHandle(forWritingAtPath: output)!
            try process.run()
            // Some lines in every state, however slow the machine is.
            for verb in ["lock", "unlock", "lock", ""] {
                let before = try acknowledged("acknowledged-\(round)").count
                _ = try waits { try acknowledged("acknowledged-\(round)").count >= before + 20 }
                if verb == "lock" { try sandbox.run("lock") }
                if verb == "unlock" { try sandbox.unlock() }
            }
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            let numbers = try acknowledged("acknowledged-\(round)")
            #expect(numbers.count >= 80)
            all += numbers
            inFlight.insert((numbers.last ?? next - 1) + 1)
            next = (numbers.last ?? next - 1) + 2
            if round % 2 == 1 { try sandbox.unlock() }
        }
        try sandbox.unlock()
        #expect(try waits { try sandbox.run("queue", "run").status == 0 && sandbox.run("queue").text == "" })
        let text = try sandbox.shell("for file in $(ls -rv log log.*); do \"$PROTECTFS\" cat \"$file\"; done")
        #expect(text.status == 0, "\(text.errors)")
        let lines = text.text.split(separator: "\n")
        let found = lines.compactMap { line in
            line.firstRange(of: "example: line ").flatMap { Int(line[$0.upperBound...].prefix { $0.isNumber }) }
        }
        #expect(found.count == lines.count, "every line is whole")
        #expect(found.filter { !inFlight.contains($0) } == all)
        #expect(Set(found).count == found.count)
        #expect(Set(["unlocked", "locked"]).allSatisfy { state in lines.contains { $0.hasSuffix("lock=\(state)") } })
        #expect(try sandbox.shell("ls | grep -c segment").text == "0\n")
    }
}
