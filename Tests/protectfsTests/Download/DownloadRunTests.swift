import FaultServer
import Foundation
import Testing

/// What happens while something runs the list.
@Suite("download: while it runs")
struct DownloadRunTests {
    private let bed: DownloadSandbox

    init() throws { bed = try DownloadSandbox(variables: ["TERM": "xterm"]) }

    private func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: bed.sandbox.path(name)) }
    private func className(_ name: String) throws -> String { try bed.sandbox.run("class", name).text }
    private func words() throws -> [[String]] {
        try bed.list().map { [$0["state"] as? String ?? "", $0["activity"] as? String ?? ""] }
    }

    /// `download …`, beside this test; standard error goes to `log`.
    private func start(_ words: String...) throws -> Process {
        let process = bed.sandbox.start(
            CommandSandbox.executable, ["download"] + words, input: FileHandle.nullDevice)
        _ = FileManager.default.createFile(atPath: bed.sandbox.path("log"), contents: nil)
        process.standardError = FileHandle(forWritingAtPath: bed.sandbox.path("log"))
        try process.run()
        return process
    }

    @Test("A lock in the middle of a get: it ends with 0, class unless-open; complete after the unlock")
    func lockInTheMiddle() async throws {
        try bed.server.answer("/a", Answer(length: 200_000).with(\.holdAfter, 100_000))
        let get = try start("get", bed.server.url("/a").absoluteString, "--only-anchor", "authority.pem")
        #expect(try await bed.server.waitUntilHeld())
        #expect(try bed.sandbox.run("lock").status == 0)
        try bed.server.release()
        get.waitUntilExit()
        #expect(get.terminationStatus == 0)
        #expect(try className("a") == "unless-open\n")
        #expect(try bed.sandbox.run("cat", "a").status == 75)
        try bed.sandbox.unlock()
        #expect(try waits { try className("a") == "complete\n" })
        #expect(try bed.sandbox.run("cat", "a").output == Data(Answer.pattern(0..<200_000)))
    }

    @Test("--while-locked suspend: the received part is class complete; the download goes on after the unlock")
    func suspended() async throws {
        try bed.server.answer("/a", Answer(length: 200_000).with(\.holdAfter, 100_000), Answer(length: 200_000))
        let get = try start(
            "get", bed.server.url("/a").absoluteString, "--only-anchor", "authority.pem", "--while-locked", "suspend")
        #expect(try await bed.server.waitUntilHeld())
        func partial() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: bed.sandbox.root).filter {
                $0.hasPrefix(".a.protectfs-download")
            }
        }
        // Until then it is in memory, and lost with the keys.
        #expect(try waits { try !partial().isEmpty })
        #expect(try bed.sandbox.run("lock").status == 0)
        #expect(try waits { try words() == [["queued", "waitingForUnlock"]] })
        #expect(try partial().map(className) == ["complete\n"])
        try bed.sandbox.unlock()
        get.waitUntilExit()
        #expect(get.terminationStatus == 0)
        #expect(try bed.sandbox.run("cat", "a").output == Data(Answer.pattern(0..<200_000)))
        try bed.server.release()
    }

    @Test(
        "run: pause and resume of what is under way; cancelled, it stays in the list until clear, and nothing else does"
    )
    func change() async throws {
        for name in ["a", "b"] {
            try bed.server.answer(
                "/\(name)", Answer(length: 200_000).with(\.holdAfter, 100_000), Answer(length: 200_000))
        }
        let urls = ["a", "b"].map { bed.server.url("/\($0)").absoluteString }
        let added = try bed.download("add", "--only-anchor", "authority.pem", urls[0], urls[1])
        let ids = added.text.split(separator: "\n").map(String.init)
        let run = try start("run", "--verbose")
        #expect(try await bed.server.waitUntilHeld(2))
        #expect(try bed.download("pause", ids[0]).status == 0)
        #expect(try bed.download("cancel", ids[1]).status == 0)
        #expect(try bed.list().map { $0["state"] as? String } == ["paused", "cancelled"])
        #expect(try bed.download("resume", ids[0]).status == 0)
        #expect(try waits { try bed.list().map { $0["state"] as? String } == ["finished", "cancelled"] })
        #expect(try waits { try bed.sandbox.shell("ls -A | grep -c protectfs-download").text == "0\n" })
        #expect(!exists("b"))
        #expect(try bed.download("clear").status == 0)
        #expect(try bed.list().isEmpty)
        #expect(try bed.sandbox.run("cat", "a").output.count == 200_000)
        kill(run.processIdentifier, SIGTERM)
        run.waitUntilExit()
        #expect(run.terminationStatus == 0)
        let log = String(decoding: try bed.sandbox.stored("log"), as: UTF8.self)
        #expect(log.contains("protectfs-download: notice: download \(ids[0].prefix(8)): finished\n"))
        #expect(log.contains(urls[0]), "with --verbose")
        try bed.server.release()
    }

    @Test("run: its log tells neither URLs nor names nor what a server said")
    func log() throws {
        try bed.server.answer("/planted-a", Answer(length: 1000))
        let urls = ["planted-a", "planted-b"].map { bed.server.url("/\($0)").absoluteString }
        #expect(try bed.download("add", "--only-anchor", "authority.pem", urls[0], urls[1]).status == 0)
        let run = try bed.download("run", "--until-idle")
        #expect(run.status == 0)
        #expect(run.errors.contains(": finished\n") && run.errors.contains(": failed (refused)\n"))
        for word in ["planted", "localhost", "404"] { #expect(!run.errors.contains(word), "\(run.errors)") }
    }

    @Test("A get ends although nothing takes the place of the bell, as on a full disk")
    func bellStays() throws {
        try bed.server.answer("/a", Answer(length: 1000))
        let done = try bed.sandbox.shell(
            #"""
            # Files get their names by renameat2(2) and linkat(2).
            timeout 60 strace -f -qq -o calls -e trace=rename -e inject=rename:error=ENOSPC \
                "$PROTECTFS" download get --only-anchor authority.pem "$1"
            echo $?; grep -q 'bell.* (INJECTED)' calls; echo $?
            """#, ["sh", bed.server.url("/a").absoluteString])
        #expect(done.text == "0\n0\n", "\(done.text) \(done.errors)")
        #expect(try bed.sandbox.run("cat", "a").output.count == 1000)
    }

    @Test("install --print shows the unit, and changes nothing")
    func unit() throws {
        let printed = try bed.download("install", "--print")
        #expect(printed.status == 0 && printed.text.contains("/protectfs download run\n"), "\(printed.text)")
        #expect(printed.text.contains("RestartPreventExitStatus=64 65 66 77 78\n"))
        #expect(try bed.sandbox.shell("find . -name '*.service'").text.isEmpty)
    }

    @Test("--stall-timeout: a connection over which nothing comes is given up, and it is tried again")
    func stalled() throws {
        try bed.server.answer("/a", Answer(length: 200_000).with(\.holdAfter, 100_000), Answer(length: 200_000))
        #expect(try bed.get("/a", "--stall-timeout", "1s").status == 0)
        #expect(try bed.server.requests().count == 2)
        #expect(try bed.sandbox.run("cat", "a").output == Data(Answer.pattern(0..<200_000)))
        try bed.server.release()
    }

    @Test("On a terminal: a bar for each, which go at the end; one and several", arguments: [["a"], ["a", "b", "c"]])
    func bars(names: [String]) throws {
        for name in names {
            try bed.server.answer("/\(name)", Answer(length: 900_000).with(\.bytesPerSecond, 200_000))
        }
        let urls = names.map { bed.server.url("/\($0)").absoluteString }
        let get = try PseudoTerminal.run(
            ["download", "get", "--only-anchor", "authority.pem"] + urls, in: bed.sandbox, [.expect("%")])
        #expect(get.status == 0, "\(get.shown)")
        for name in names {
            #expect(get.shown.contains(try Regex("\(name) +\\[#* *\\] +[0-9]+ %")), "\(get.shown)")
            #expect(exists(name))
        }
        // The last thing is that the bars go.
        #expect(get.shown.hasSuffix("\u{1B}[\(names.count)A\r\u{1B}[J"), "\(get.shown)")
    }

    @Test(
        "74: the disk is full: refused ahead where the length is known, else the received bytes are kept",
        .enabled(if: geteuid() == 0, "needs root: it mounts a small disk"), arguments: [true, false])
    func fullDisk(lengthIsKnown: Bool) throws {
        let answer = Answer(length: 4 << 20)
        try bed.server.answer("/a", lengthIsKnown ? answer : answer.with(\.contentLength, -1))
        let done = try bed.sandbox.shell(
            """
            mkdir small && exec unshare --mount sh -c '
                mount -t tmpfs -o size=1m none small && "$PROTECTFS" download get "$0" --only-anchor authority.pem -d small
                status=$?; ls -A small; exit $status' "$0"
            """, [bed.server.url("/a").absoluteString])
        #expect(done.status == 74, "\(done.errors)")
        #expect(done.text.contains(".a.protectfs-download-") != lengthIsKnown)
        #expect(!done.text.split(separator: "\n").contains("a"))
    }

    @Test("run: a log that nobody reads holds nothing up, and it ends when it is told to")
    func unreadLog() throws {
        try bed.server.answer("/a", Answer(length: 1000))
        let url = bed.server.url("/a").absoluteString
        let added = try bed.download("add", "--only-anchor", "authority.pem", url)
        #expect(added.status == 0)
        let done = try bed.sandbox.shell(
            """
            exec python3 -c '
            import os, subprocess, time
            read, write = os.pipe()
            os.set_blocking(write, False)
            try:
                while True: os.write(write, bytes(4096))
            except BlockingIOError: os.set_blocking(write, True)
            run = subprocess.Popen([os.environ["PROTECTFS"], "download", "run", "--verbose"], stderr=write)
            for _ in range(2000):
                if os.path.exists("a"): break
                time.sleep(0.01)
            run.terminate()
            print(run.wait(timeout=20))
            '
            """)
        #expect(done.text == "0\n", "\(done.text) \(done.errors)")
        #expect(try bed.sandbox.run("cat", "a").output.count == 1000)
    }

    @Test("A keybag that is erased meanwhile: get ends and says so, and nothing of the keybag comes back")
    func erased() async throws {
        try bed.server.answer("/a", Answer(length: 200_000).with(\.holdAfter, 100_000))
        let get = try start("get", bed.server.url("/a").absoluteString, "--only-anchor", "authority.pem")
        #expect(try await bed.server.waitUntilHeld())
        #expect(try bed.sandbox.run("erase", "--yes").status == 0)
        try bed.server.release()
        // A minute is long enough to call it hanging.
        for _ in 0..<600 where get.isRunning { try await Task.sleep(for: .milliseconds(100)) }
        if get.isRunning {
            kill(get.processIdentifier, SIGKILL)
            Issue.record("get has not ended")
        }
        get.waitUntilExit()
        #expect(get.terminationStatus != 0)
        #expect(!FileManager.default.fileExists(atPath: bed.sandbox.keybagDirectory))
        let made = try bed.sandbox.run("init", "--passcode-fd", "3", passcodes: Data("new".utf8))
        #expect(made.status == 0, "\(made.errors)")
    }
}
