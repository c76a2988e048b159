import Foundation
import Testing

@testable import DataProtection

@Suite("queue, write --raise-to, and the background process of unlock")
struct QueueVerbTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.run("lock")
    }

    private func className(_ name: String) throws -> String { try sandbox.run("class", name).text }

    private func write(_ name: String, _ options: String...) throws -> Finished {
        let line = ["write", "--class", "unless-open", "--raise-to", "complete", name] + options
        return try sandbox.run(line, input: Data("text\n".utf8))
    }

    @Test("Raised at once while unlocked, queued while locked, done after the unlock")
    func raise() throws {
        #expect(try write("a").status == 0)
        #expect(try write("b", "--append").status == 0)
        #expect(try className("a") == "unless-open\n")
        #expect(try sandbox.run("status").text.contains("\n2 queued: protectfs queue\n"))
        let root = try FilePath(sandbox.root).resolved()
        #expect(try sandbox.run("queue").text == "raise to complete  \(root)/a\nraise to complete  \(root)/b\n")
        let entries = try sandbox.run("queue", "--json").json() as? [[String: Any]]
        #expect(entries?.map { $0["path"] as? String } == ["\(root)/a", "\(root)/b"])
        #expect(entries?.first?["kind"] as? String == "raise")
        #expect(entries?.first?["class"] as? String == "complete")
        #expect(entries?.first?["error"] is NSNull)
        try sandbox.unlock()
        #expect(try waits { try className("a") + className("b") == "complete\ncomplete\n" })
        #expect(try waits { try sandbox.run("queue").text == "" })
        #expect(try sandbox.run("cat", "b").text == "text\n")
        #expect(try write("c").status == 0)
        #expect(try className("c") == "complete\n")
        #expect(try !sandbox.run("status").text.contains("queued"))
    }

    @Test("A class to raise to that is weaker is a usage error")
    func usage() throws {
        let done = try sandbox.run("write", "--class", "complete", "--raise-to", "none", "f")
        #expect(done.status == 64)
        #expect(done.errors.contains("--raise-to none is weaker than --class complete"))
    }

    @Test("queue run while locked says that it waits; a file that fails stays in the queue")
    func runsInTheForeground() throws {
        #expect(try sandbox.run("queue", "run").status == 0, "there is nothing to do")
        #expect(try write("a").status == 0)
        let done = try sandbox.run("queue", "run")
        #expect(done.status == 75)
        #expect(done.errors.contains("1 of 1 wait for an unlock"))
        let stored = try FileHandle(forUpdating: URL(fileURLWithPath: sandbox.path("a")))
        try stored.seek(toOffset: 200)
        try stored.write(contentsOf: Data(repeating: 7, count: 100))
        try sandbox.unlock()
        #expect(try waits { try sandbox.run("queue").text.hasSuffix("/a  (bad message)\n") })
        #expect(try sandbox.run("queue", "run").status == 65)
    }

    @Test("A file that was moved away stays in the list until somebody is told")
    func lost() throws {
        #expect(try write("a").status == 0)
        try FileManager.default.createDirectory(atPath: sandbox.path("d"), withIntermediateDirectories: false)
        try FileManager.default.moveItem(atPath: sandbox.path("a"), toPath: sandbox.path("d/a"))
        try sandbox.unlock()
        #expect(try waits { try sandbox.run("queue").text.hasSuffix("/a  (no such file or directory)\n") })
        #expect(try sandbox.run("status").text.contains("\n1 queued: protectfs queue\n"))
        // The process that the unlock has left may still be at it.
        #expect(
            try waits {
                let done = try sandbox.run("queue", "run")
                return done.status == 0 && done.errors.contains("/a' no longer exists")
            })
        #expect(try sandbox.run("queue").text == "")
    }

    @Test("queue run waits for another process that does the work, and not for a program that has the file open")
    func doneElsewhere() throws {
        #expect(try write("a").status == 0)
        let note = try sandbox.shell("ls -d \"$PROTECTFS_KEYBAG\"/queue/*").text.trimmingCharacters(in: .newlines)
        let holding = try FileHandle(forUpdating: URL(fileURLWithPath: note))
        #expect(flock(holding.fileDescriptor, LOCK_EX) == 0)
        try sandbox.unlock()
        let first = try sandbox.run("queue", "run")
        #expect(first.errors.contains("/a' is still open; its work stays queued"))
        #expect(try className("a") == "unless-open\n")
        // What a worker keeps beside the note while it is at it. FORMAT.md §2.8.
        try Data("1\n".utf8).write(to: URL(fileURLWithPath: note + ".tries"))
        let worker = Thread {
            Thread.sleep(forTimeInterval: 1)
            flock(holding.fileDescriptor, LOCK_UN)
        }
        worker.start()
        let second = try sandbox.run("queue", "run")
        #expect(second.status == 0 && !second.errors.contains("still open"), "\(second.errors)")
        #expect(try className("a") == "complete\n")
        #expect(try sandbox.run("queue").text == "")
    }

    @Test("Raising to the class that the file already has is no weakening")
    func again() throws {
        try sandbox.unlock()
        for _ in 0..<2 {
            #expect(try write("a").status == 0)
            #expect(try className("a") == "complete\n")
        }
        let done = try sandbox.run(
            ["write", "--class", "unless-open", "--raise-to", "unless-open", "a"], input: Data("text\n".utf8))
        #expect(done.errors.contains("would be weaker"))
    }

    /// The process that an unlock leaves is held up by a lock on the file that it is to raise, and looked at.
    @Test("The background process keeps nothing of its parent's and gives way")
    func background() throws {
        #expect(try write("a").status == 0)
        let file = try LowerFile(FilePath(sandbox.path("a")), flags: O_RDWR)
        #expect(try file.tryByteLock(OpenFile.slotLock, .exclusive))
        // A pipe that stays open in it would keep cat waiting.
        try Data(CommandSandbox.passcode.utf8).write(to: URL(fileURLWithPath: sandbox.path("passcode")))
        let done = try sandbox.shell(
            "exec 4>&1; { \"$PROTECTFS\" unlock --passcode-fd 3 3<passcode 2>&1 | cat; }; echo over")
        #expect(done.text.hasSuffix("over\n"), "\(done.errors)")
        let pid = try #require(waitForPID())
        for descriptor in ["0", "1", "2"] {
            #expect(
                try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/fd/\(descriptor)")
                    == "/dev/null")
        }
        // While it starts, libcrypto reads its configuration. What it has from its parent stays open.
        #expect(
            try waits {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").filter { Int($0)! > 2 }
                    .compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/fd/\($0)") }
                    .allSatisfy { $0.contains("/queue/") || $0.hasSuffix("/a") }
            })
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/cwd") == "/")
        #expect(getsid(pid) == pid)
        #expect(getpriority(__priority_which_t(PRIO_PROCESS.rawValue), id_t(pid)) == 19)
        #expect(try className("a") == "unless-open\n")
        try file.unlockByte(OpenFile.slotLock)
        #expect(try waits { try className("a") == "complete\n" })
    }

    private func waitForPID() -> pid_t? {
        var found: pid_t?
        _ = waits {
            found = (try? FileManager.default.contentsOfDirectory(atPath: "/proc"))?.compactMap { pid_t($0) }.first {
                pid in
                let line = (try? Data(contentsOf: URL(fileURLWithPath: "/proc/\(pid)/cmdline"))) ?? Data()
                let words = line.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
                return words.contains("--background") && words.contains(sandbox.keybagDirectory)
                    && (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/cwd")) == "/"
                    && getpriority(__priority_which_t(PRIO_PROCESS.rawValue), id_t(pid)) == 19
            }
            return found != nil
        }
        return found
    }
}
