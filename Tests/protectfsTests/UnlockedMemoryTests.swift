import Foundation
import Testing

@testable import DataProtection

/// Our programs at work, unlocked: who may read their memory, as root may, finds no key in it.
@Suite("While unlocked, memory")
struct UnlockedMemoryTests {
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

        let own = [sealing, opening].map(\.processIdentifier)
        guard let found = try look(sandbox, own + [control.pid], ["--unlocked"]) else { return }
        for name in ["class key A", "file key of log", "chunk key of log", "head key of large"] {
            #expect(found.names.contains { $0.hasPrefix(name) })
        }
        for pid in own {
            let process = try #require(found[pid])
            #expect(try #require(process.bytes) > 1_000_000)
            let isSecret = process.unreadable?.contains { $0.hasPrefix("/secretmem") } == true
            guard isSecret else {
                print("UnlockedMemoryTests skipped: no memfd_secret(2) here, so locked memory can be read")
                continue
            }
            #expect(process.found == [:], "process \(pid)")
            #expect(process.planted == [:], "process \(pid)")
        }
        let others = try #require(found[control.pid])
        #expect(others.planted?.isEmpty == false, "the search finds the key of an open handle in libcrypto's memory")

        try sandbox.run("lock")
        usleep(100_000)
        let after = try #require(try look(sandbox, own, []))
        for pid in own { #expect(after[pid]?.found == [:], "process \(pid)") }
    }

    private func look(_ sandbox: CommandSandbox, _ pids: [pid_t], _ options: [String]) throws -> MemorySearch? {
        try MemorySearch("UnlockedMemoryTests", sandbox, pids, options: options)
    }
}
