import Foundation
import Testing

@testable import DataProtection

/// Our programs at work, unlocked: who may read their memory, as root may, finds no key in it.
@Suite("While unlocked, memory")
struct UnlockedMemoryTests {
    /// What Tests/MemoryScan/processes.py prints.
    private struct Answer: Decodable {
        struct Found: Decodable {
            let skipped: String?
            let bytes: Int?
            let unreadable: [String]?
            let planted: [String: [String]]?
            let found: [String: [String]]?
        }
        let names: [String]
        let processes: [String: Found]
    }

    @Test("Sealing, opening, and after a lock: no key; a program that does not give libcrypto its memory has some")
    func nothingIsThere() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        try CrowdInSandbox.makeFiles(sandbox)
        try sandbox.protectedFile("files/large", Data(repeating: 7, count: 3 << 20))
        let control = try CrowdInSandbox(sandbox, ["read"])
        // One seals what comes; one opens what nobody takes from it.
        let (input, output) = (Pipe(), Pipe())
        let sealing = sandbox.start(
            CommandSandbox.executable, ["write", "--append", "--class", "complete", "files/log"], input: input)
        try sealing.run()
        try input.fileHandleForWriting.write(contentsOf: Data(repeating: 3, count: 300_000))
        let opening = sandbox.start(
            CommandSandbox.executable, ["cat", "files/large"], input: FileHandle.nullDevice)
        opening.standardOutput = output
        try opening.run()
        defer {
            for process in [sealing, opening] {
                kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            }
        }
        while try sandbox.stored("files/log").count < 250_000 { usleep(10_000) }
        usleep(200_000)  // it has filled the pipe

        let own = [sealing, opening].map { "\($0.processIdentifier)" }
        guard let found = try look(sandbox, own + ["\(control.pid)"], ["--unlocked"]) else { return }
        for name in ["class key A", "file key of log", "chunk key of log", "head key of large"] {
            #expect(found.names.contains { $0.hasPrefix(name) })
        }
        for pid in own {
            let process = try #require(found.processes[pid])
            #expect(try #require(process.bytes) > 1_000_000)
            let isSecret = process.unreadable?.contains { $0.hasPrefix("/secretmem") } == true
            guard isSecret else {
                print("UnlockedMemoryTests skipped: no memfd_secret(2) here, so locked memory can be read")
                continue
            }
            #expect(process.found == [:], "process \(pid)")
            #expect(process.planted == [:], "process \(pid)")
        }
        let others = try #require(found.processes["\(control.pid)"])
        #expect(others.planted?.isEmpty == false, "the search finds the key of an open handle in libcrypto's memory")

        try sandbox.run("lock")
        usleep(100_000)
        let after = try #require(try look(sandbox, own, []))
        for pid in own { #expect(after.processes[pid]?.found == [:], "process \(pid)") }
    }

    /// Nil where memory cannot be searched, which is printed.
    private func look(_ sandbox: CommandSandbox, _ pids: [String], _ options: [String]) throws -> Answer? {
        let script = Checkout.root.appendingPathComponent("Tests/MemoryScan/processes.py").path
        let scanned = try sandbox.shell(
            "exec python3 -B \"$@\"",
            [
                "sh", script, "--keybag", sandbox.keybagDirectory, "--device-key",
                sandbox.path("state/protectfs/device-key"), "--files", CrowdInSandbox.directory(sandbox),
            ] + options + pids, input: Data("\(CommandSandbox.passcode)\n".utf8))
        guard scanned.status == 0 else {
            print("UnlockedMemoryTests skipped: \(scanned.errors.suffix(300))")
            return nil
        }
        let answer = try JSONDecoder().decode(Answer.self, from: scanned.output)
        if let reason = answer.processes.values.compactMap(\.skipped).first {
            print("UnlockedMemoryTests skipped: \(reason)")
            return nil
        }
        return answer
    }
}
