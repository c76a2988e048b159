import FaultServer
import Foundation
import TestEffort
import Testing

@testable import DataProtection

/// Our programs at work, unlocked: who may read their memory, as root may, finds no key in it.
@Suite(
    "While unlocked, memory",
    .disabled(if: Effort.isSanitized, "a sanitizer keeps memory that was given back, and has no end of it"))
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
        try expectNothing(in: own, found)
        let others = try #require(found[control.pid])
        #expect(others.planted?.isEmpty == false, "the search finds the key of an open handle in libcrypto's memory")

        try sandbox.run("lock")
        usleep(100_000)
        let after = try #require(try look(sandbox, own, []))
        for pid in own { #expect(after[pid]?.found == [:], "process \(pid)") }
    }

    @Test("The agent, a download under way and a secret that nobody takes: no key, and none after the lock")
    func otherPrograms() async throws {
        let bed = try AgentBed()
        let sandbox = bed.sandbox
        let server = try FaultServer()
        try server.answer("/a", Answer(length: 4_000_000).with(\.holdAfter, 3_000_000))
        try sandbox.put(String(decoding: server.authority, as: UTF8.self), at: "authority.pem")
        try CrowdInSandbox.makeFiles(sandbox)
        // The longest there is, which fills a pipe; with the end of the line it is more than that.
        let value = Data(repeating: 0x61, count: 65_536)
        #expect(try sandbox.run(["secret", "add", "--account", "long", "--raw"], input: value).status == 0)
        let output = Pipe()
        let secret = sandbox.start(
            CommandSandbox.executable, ["secret", "get", "--account", "long"], input: FileHandle.nullDevice)
        secret.standardOutput = output
        try secret.run()
        let download = sandbox.start(
            CommandSandbox.executable,
            ["download", "get", server.url("/a").absoluteString, "--only-anchor", "authority.pem", "-o", "files/a"],
            input: FileHandle.nullDevice)
        try download.run()
        defer {
            for process in [secret, download] {
                kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            }
        }
        #expect(try await server.waitUntilHeld())
        usleep(300_000)  // what has come is sealed, the value is in the pipe

        let own = [secret, download].map(\.processIdentifier) + [bed.agent.pid]
        guard let found = try look(sandbox, own, ["--unlocked"]) else { return }
        for name in ["file key of .a.protectfs-download", "class key of secrets A", "item key of long"] {
            #expect(found.names.contains { $0.hasPrefix(name) }, "\(name)")
        }
        try expectNothing(in: own, found)

        #expect(secret.isRunning && download.isRunning)
        try sandbox.run("lock")
        usleep(100_000)
        let after = try #require(try look(sandbox, own, []))
        for pid in own { #expect(after[pid]?.found == [:], "process \(pid)") }
    }

    private func expectNothing(in pids: [pid_t], _ search: MemorySearch) throws {
        for pid in pids {
            let process = try #require(search[pid])
            #expect(try #require(process.bytes) > 1_000_000)
            let isSecret = process.unreadable?.contains { $0.hasPrefix("/secretmem") } == true
            guard isSecret else {
                print("UnlockedMemoryTests skipped: no memfd_secret(2) here, so locked memory can be read")
                continue
            }
            #expect(process.found == [:], "process \(pid)")
            #expect(process.planted == [:], "process \(pid)")
        }
    }

    private func look(_ sandbox: CommandSandbox, _ pids: [pid_t], _ options: [String]) throws -> MemorySearch? {
        try MemorySearch("UnlockedMemoryTests", sandbox, pids, options: options)
    }
}
