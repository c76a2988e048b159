import Foundation
import Testing

@testable import DataProtection

@Suite("write --append")
struct AppendTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    /// A log that begins before a lock and goes on after it.
    private func logThroughLock(_ className: String) throws -> Finished {
        try sandbox.shell(
            """
            { echo before; sleep 0.7; "$PROTECTFS" lock; echo after; sleep 0.3; } |
                "$PROTECTFS" write --append --class \(className) log
            """)
    }

    @Test("A directory or a socket is refused, not an I/O error")
    func notRegular() throws {
        try sandbox.put("x", at: "directory/x")
        #expect(try sandbox.run("write", "--append", "directory", input: Data("x".utf8)).status == 77)
        let make = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
        #expect(try sandbox.shell("python3 -c \"$0\" socket", [make]).status == 0)
        for verb in [["write", "--append"], ["write"], ["cat"], ["verify"], ["explain", "--stored"]] {
            let done = try sandbox.run(verb + ["socket"], input: Data("x".utf8))
            #expect(done.status == 77, "\(verb): \(done.errors)")
        }
    }

    @Test("Creates, then continues, and replaces nothing")
    func appends() throws {
        for line in ["one\n", "two\n"] {
            #expect(try sandbox.run("write", "--append", "log", input: Data(line.utf8)).status == 0)
        }
        #expect(try sandbox.run("cat", "log").text == "one\ntwo\n")
        let big = Data(repeating: 7, count: 1_000_000)
        #expect(try sandbox.run("write", "--append", "log", input: big).status == 0)
        #expect(try sandbox.run("cat", "log").output == Data("one\ntwo\n".utf8) + big)
    }

    @Test("A log goes on through a lock", arguments: ["unless-open", "first-unlock", "none"])
    func throughLock(className: String) throws {
        let done = try logThroughLock(className)
        #expect(done.status == 0, "\(done.errors)")
        try sandbox.unlock()
        #expect(try sandbox.run("cat", "log").text == "before\nafter\n")
    }

    @Test("A complete file stops at a lock and says what was written and what was not")
    func complete() throws {
        let done = try logThroughLock("complete")
        #expect(done.status == 75)
        #expect(done.errors.contains("7 bytes were written to 'log'; the next 6 of the input were not"))
        try sandbox.unlock()
        #expect(try sandbox.run("cat", "log").text == "before\n")
    }

    @Test("Input that cannot be read: it says what was written, too")
    func unreadableInput() throws {
        #expect(try sandbox.run("write", "--append", "log", input: Data("before\n".utf8)).status == 0)
        let done = try sandbox.shell("\"$PROTECTFS\" write --append log </")
        #expect(done.status == 74)
        #expect(done.errors.contains("0 bytes were written to 'log'; the rest of the input was not"), "\(done.errors)")
        #expect(done.errors.contains("standard input: is a directory"), "\(done.errors)")
        #expect(try sandbox.run("cat", "log").text == "before\n")
    }

    @Test("An unless-open log can be begun while locked")
    func createdWhileLocked() throws {
        try sandbox.run("lock")
        #expect(
            try sandbox.run("write", "--append", "--class", "unless-open", "log", input: Data("x".utf8)).status == 0)
        #expect(try sandbox.run("write", "--append", "log", input: Data("y".utf8)).status == 75)
        try sandbox.unlock()
        #expect(try sandbox.run("cat", "log").text == "x")
    }

    @Test("Each piece is on disk before the next one is read")
    func committed() throws {
        let script = """
            mkfifo pipe; "$PROTECTFS" write --append log <pipe & exec 5>pipe
            echo first >&5; sleep 0.7; kill -KILL $!; wait $! 2>/dev/null; "$PROTECTFS" cat log
            """
        #expect(try sandbox.shell(script).text == "first\n")
    }

    @Test("SIGTERM finishes what there is and closes")
    func terminated() throws {
        let script = """
            mkfifo pipe; "$PROTECTFS" write --append log <pipe & exec 5>pipe
            echo first >&5; sleep 0.7; kill -TERM $!; wait $!
            """
        #expect(try sandbox.shell(script).status == 130)
        #expect(try sandbox.run("cat", "log").text == "first\n")
    }

    @Test("A stronger class than the file has is not quietly missed")
    func strongerClass() throws {
        try sandbox.protectedFile("log", Data("1".utf8), "none")
        let done = try sandbox.run("write", "--append", "--class", "complete", "log", input: Data("2".utf8))
        #expect(done.status == 77)
        #expect(try sandbox.run("write", "--append", "--class", "none", "log", input: Data("2".utf8)).status == 0)
        #expect(try sandbox.run("cat", "log").text == "12")
    }

    @Test("Plaintext is not continued")
    func plaintext() throws {
        try sandbox.put("plain", at: "log")
        #expect(try sandbox.run("write", "--append", "log", input: Data("2".utf8)).status == 65)
        #expect(try sandbox.stored("log") == Data("plain".utf8))
    }

    @Test("With --segments a log goes on in every state, and is one after the unlock")
    func segments() throws {
        func append(_ line: String) throws -> Finished {
            try sandbox.run("write", "--append", "--segments", "log", input: Data("\(line)\n".utf8))
        }
        #expect(try append("1").status == 0)
        #expect(try sandbox.run("class", "log").text == "unless-open\n")
        try sandbox.run("lock")
        for line in ["2", "3"] {
            let done = try append(line)
            #expect(done.status == 0, "\(done.errors)")
        }
        let root = try FilePath(sandbox.root).resolved()
        #expect(try sandbox.run("queue").text == "join  \(root)/log.segment-1\njoin  \(root)/log.segment-2\n")
        let entries = try sandbox.run("queue", "list", "--json").json() as? [[String: Any]]
        #expect(entries?.map { $0["log"] as? String } == ["\(root)/log", "\(root)/log"])
        try sandbox.unlock()
        #expect(try append("4").status == 0)
        // The process that the unlock has left may be at it too.
        #expect(try waits { try sandbox.run("queue", "run").status == 0 && sandbox.run("queue").text == "" })
        #expect(try sandbox.run("cat", "log").text == "1\n2\n3\n4\n")
    }

    @Test("--segments goes with --append and unless-open only")
    func segmentsUsage() throws {
        for options in [
            ["--segments"], ["--append", "--segments", "--class", "complete"],
            ["--append", "--segments", "--raise-to", "complete"],
        ] {
            #expect(try sandbox.run(["write"] + options + ["log"]).status == 64)
        }
        try sandbox.protectedFile("log", Data("1".utf8), "complete")
        #expect(try sandbox.run("write", "--append", "--segments", "log").status == 77)
    }
}
