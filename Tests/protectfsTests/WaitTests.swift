import Foundation
import Testing

@testable import DataProtection

@Suite("protectfs wait and watch")
struct WaitTests {
    private let sandbox: CommandSandbox

    init() throws { sandbox = try CommandSandbox() }

    /// Starts a command in the background, with its standard output in a file.
    private func start(_ words: [String], output name: String = "out") throws -> Process {
        let path = sandbox.path(name)
        _ = FileManager.default.createFile(atPath: path, contents: nil)
        let process = sandbox.start(CommandSandbox.executable, words, input: FileHandle.nullDevice)
        process.standardOutput = FileHandle(forWritingAtPath: path)!
        try process.run()
        return process
    }

    private func lines(_ name: String = "out") -> [String] {
        let text = (try? String(contentsOfFile: sandbox.path(name), encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init)
    }

    /// Whether somebody has begun to listen: run/ is made by listeners.
    private func isListenedTo() -> Bool { FileManager.default.fileExists(atPath: sandbox.keybagDirectory + "/run") }

    @Test("wait returns at once where there is nothing to wait for")
    func atOnce() throws {
        let locked = try sandbox.run("wait", "--until", "locked")
        #expect(locked.status == 0 && locked.text == "" && locked.errors == "")
        try sandbox.unlock()
        let unlocked = try sandbox.run("wait")
        #expect(unlocked.status == 0 && unlocked.text == "" && unlocked.errors == "")
    }

    @Test("wait ends when another process unlocks, or locks")
    func otherProcess() throws {
        let waiting = try start(["wait"])
        #expect(waits { isListenedTo() })
        #expect(waiting.isRunning)
        try sandbox.unlock()
        waiting.waitUntilExit()
        #expect(waiting.terminationStatus == 0)
        let other = try start(["wait", "--until", "locked", "--timeout", "1h"])
        usleep(100_000)
        #expect(other.isRunning)
        #expect(try sandbox.run("lock").status == 0)
        other.waitUntilExit()
        #expect(other.terminationStatus == 0)
    }

    @Test("wait gives up with status 75, and says how to unlock")
    func timeout() throws {
        let tired = try sandbox.run("wait", "--timeout", "1s")
        #expect(tired.status == 75)
        #expect(
            tired.errors == """
                protectfs: error: '\(sandbox.keybagDirectory)' is still locked
                protectfs: hint: unlock it: protectfs unlock

                """)
        try sandbox.unlock()
        let other = try sandbox.run("wait", "--until", "locked", "--timeout", "1")
        #expect(other.status == 75)
        #expect(other.errors == "protectfs: error: '\(sandbox.keybagDirectory)' is still unlocked\n")
    }

    @Test("wait and watch end with 130 when they are interrupted", arguments: ["wait", "watch"])
    func interrupted(verb: String) throws {
        let process = try start([verb])
        #expect(waits { isListenedTo() })
        usleep(100_000)
        process.interrupt()
        process.waitUntilExit()
        #expect(process.terminationStatus == 130)
    }

    @Test("watch prints what is so, and then every lock and unlock of other processes")
    func watch() throws {
        let watching = try start(["watch"])
        #expect(waits { lines() == ["locked"] })
        #expect(waits { isListenedTo() })
        try sandbox.unlock()
        #expect(waits { lines().last == "unlocked" })
        let locking = try start(["lock", "--grace", "2"], output: "lock")
        #expect(waits { lines().last?.hasPrefix("locks in ") == true })
        locking.waitUntilExit()
        #expect(waits { lines().last == "locked" })
        try sandbox.unlock()
        #expect(waits { lines().last == "unlocked" })
        #expect(try sandbox.run("lock").status == 0)
        #expect(waits { lines().last == "locked" })
        #expect(["locks in 2 s", "locks in 1 s"].contains(lines()[2]))
        #expect(lines()[3...] == ["locked", "unlocked", "locks in 0 s", "locked"])
        watching.interrupt()
        watching.waitUntilExit()
    }

    @Test("watch --json prints an object a line")
    func json() throws {
        let watching = try start(["watch", "--json"])
        #expect(waits { lines().count == 1 })
        #expect(waits { isListenedTo() })
        try sandbox.unlock("--for", "1h")
        #expect(waits { lines().count == 2 })
        #expect(try sandbox.run("lock").status == 0)
        #expect(waits { lines().count == 4 })
        let objects = try lines().map { try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] }
        #expect(
            objects.map { $0?["event"] as? String } == [
                nil, "didBecomeAvailable", "willBecomeUnavailable", "didBecomeUnavailable",
            ])
        #expect(objects.map { $0?["state"] as? String } == ["locked", "unlocked", "unlocked", "locked"])
        #expect(objects.map { $0?["secondsUntilLock"] as? Int } == [nil, nil, 0, nil])
        #expect(objects.allSatisfy { $0?["time"] is Int })
        watching.interrupt()
        watching.waitUntilExit()
    }

    @Test("watch ends with its reader")
    func reader() throws {
        #expect(try sandbox.shell("\"$PROTECTFS\" watch | head -n 1").text == "locked\n")
    }

    @Test(
        "Examples/SaveBeforeLock: three programs save when another process is about to lock, and come back",
        .enabled(if: Example.areBuilt, "the examples are not built: Tests/build builds them"))
    func saveBeforeLock() throws {
        let example = Example.path("SaveBeforeLock")
        try sandbox.unlock()
        let programs = try (0..<3).map { number in
            let program = sandbox.start(example, ["draft\(number)"], input: FileHandle.nullDevice)
            try program.run()
            return program
        }
        defer { for program in programs { program.terminate() } }
        // All three must be listening: each has the inotify instance of one listener.
        #expect(waits { programs.allSatisfy { hasInotify($0.processIdentifier) } })
        #expect(try sandbox.run("lock", "--grace", "2").status == 0)
        #expect(try sandbox.run("cat", "draft0").status == 75)
        try sandbox.unlock()
        for number in 0..<3 {
            #expect(try sandbox.run("cat", "draft\(number)").text == "not saved yet\n")
            #expect(try sandbox.run("class", "draft\(number)").text == "complete\n")
            #expect(programs[number].isRunning)
        }
    }

    private func hasInotify(_ pid: Int32) -> Bool {
        let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd")) ?? []
        return descriptors.contains { descriptor in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/fd/\(descriptor)"))
                == "anon_inode:inotify"
        }
    }
}
