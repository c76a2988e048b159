import FaultServer
import Foundation
import Testing

@Suite("download: verbs")
struct DownloadVerbTests {
    private let bed: DownloadSandbox

    init() throws { bed = try DownloadSandbox() }

    @Test("get: the file is there, protected and whole; silent")
    func get() throws {
        try bed.server.answer("/dir/file.bin", Answer(length: 300_000))
        let done = try bed.get("/dir/file.bin")
        #expect(done.status == 0)
        #expect(done.errors == "" && done.text == "")
        #expect(try bed.sandbox.run("cat", "file.bin").output == Data(Answer.pattern(0..<300_000)))
        let listed = try bed.sandbox.run("ls", "--json", "file.bin").text
        #expect(listed.contains("\"complete\""))
    }

    @Test("get of several, into a directory, each event a line of JSON")
    func several() throws {
        try FileManager.default.createDirectory(atPath: bed.sandbox.path("in"), withIntermediateDirectories: true)
        for name in ["a", "b"] { try bed.server.answer("/\(name)", Answer(length: 1000)) }
        let done = try bed.get("/a", bed.server.url("/b").absoluteString, "-d", "in", "--class", "none", "--json")
        #expect(done.status == 0, "\(done.errors)")
        let events = try done.text.split(separator: "\n").map {
            try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any] ?? [:]
        }
        #expect(events.filter { $0["event"] as? String == "finished" }.count == 2)
        for name in ["a", "b"] {
            #expect(try bed.sandbox.run("cat", "in/\(name)").output == Data(Answer.pattern(0..<1000)))
        }
    }

    @Test("More URLs than the parser is given, options before or behind them")
    func many() throws {
        let urls = (0..<70).map { bed.server.url("/file-\($0)").absoluteString }
        for index in 0..<70 { try bed.server.answer("/file-\(index)", Answer(length: 100 + index)) }
        let added = try bed.sandbox.run(["download", "add"] + urls + ["--only-anchor", "authority.pem"])
        #expect(added.status == 0, "\(added.errors)")
        #expect(added.text.split(separator: "\n").count == 70)
        let done = try bed.sandbox.run(["download", "get", "--only-anchor", "authority.pem"] + urls)
        #expect(done.status == 0, "\(done.errors)")
        let lengths = try bed.list().map { $0["received"] as? Int }
        #expect(lengths == (0..<70).map { 100 + $0 })
    }

    @Test("add prints ids; list says why they wait; pause, resume and cancel; run --until-idle does what is left")
    func list() throws {
        for name in ["a", "b", "c"] { try bed.server.answer("/\(name)", Answer(length: 1000)) }
        let urls = ["a", "b", "c"].map { bed.server.url("/\($0)").absoluteString }
        let added = try bed.sandbox.run(["download", "add", "--only-anchor", "authority.pem"] + urls)
        let ids = added.text.split(separator: "\n").map(String.init)
        try #require(ids.count == 3 && ids.allSatisfy { $0.count == 32 }, "\(added.errors)")
        #expect(try bed.download("list").text.contains("nothing runs the list"))
        #expect(try bed.download("pause", ids[0]).status == 0)
        #expect(try bed.download("cancel", String(ids[1].prefix(8))).status == 0)
        #expect(try bed.list().map { $0["state"] as? String } == ["paused", "queued"])
        #expect(try bed.download("run", "--until-idle").status == 0)
        #expect(try bed.list().map { $0["state"] as? String } == ["paused", "finished"])
        #expect(try bed.sandbox.run("cat", "c").status == 0)
        #expect(!FileManager.default.fileExists(atPath: bed.sandbox.path("b")))
        #expect(try bed.download("resume", ids[0]).status == 0)
        #expect(try bed.download("run", "--until-idle").status == 0)
        #expect(try bed.sandbox.run("cat", "a").status == 0)
        #expect(try bed.download("pause", "ffffffff").status == 66)
    }

    @Test("list: a name that a server has chosen is on one line, and moves no cursor, in a pipe too")
    func names() throws {
        let url = bed.server.url("/a%0Ab%1B%5B2Jc").absoluteString
        #expect(try bed.download("add", url, bed.server.url("/plain").absoluteString).status == 0)
        let lines = try bed.download("list").text.split(separator: "\n")
        try #require(lines.count == 2)
        #expect(lines[0].hasSuffix("/a\\nb\\x1b[2Jc'") && lines[0].contains("  $'/"))
        #expect(lines[1].hasSuffix("/plain") && !lines[1].contains("'"))
        #expect(try (bed.list()[0]["path"] as? String)?.hasSuffix("/a\nb\u{1B}[2Jc") == true)
    }

    @Test("73: a second download to the same file, unless it is to replace it; the error names the first one")
    func sameTarget() throws {
        let url = bed.server.url("/a").absoluteString
        let first = try bed.download("add", url).text.split(separator: "\n").map(String.init)
        let second = try bed.download("add", url)
        #expect(second.status == 73 && second.text == "" && second.errors.contains(first[0]), "\(second.errors)")
        #expect(try bed.download("get", bed.server.url("/b").absoluteString, "-o", "a").status == 73)
        // Of several the others are added all the same.
        let both = try bed.download("add", url, bed.server.url("/c").absoluteString)
        #expect(both.status == 73 && both.text.split(separator: "\n").count == 1)
        #expect(try bed.download("add", url, "--replace").status == 0)
        #expect(try bed.list().count == 3)
    }

    @Test("Several processes may begin the list at the same moment")
    func beginning() throws {
        for _ in 0..<4 {
            let done = try bed.sandbox.shell(
                """
                rm -rf "$PROTECTFS_KEYBAG/downloads"
                for number in 1 2 3 4; do "$PROTECTFS" download list --json || echo failed & done; wait
                """)
            #expect(!done.text.contains("failed"), "\(done.errors)")
        }
    }

    @Test("Before the first unlock nothing is added, and the list says what it waits for")
    func beforeFirstUnlock() throws {
        let url = bed.server.url("/a").absoluteString
        #expect(try bed.download("add", url).status == 0)
        bed.sandbox.evictKeys(of: bed.sandbox.keybagDirectory)
        #expect(try bed.download("add", url).status == 75)
        let listed = try bed.download("list").text
        #expect(listed.contains("waiting for the first unlock"))
        #expect(!listed.contains("localhost"))
    }

    @Test(
        "get, killed in the middle or ended by a signal, leaves the download in the list; the next get goes on with it",
        arguments: [SIGINT, SIGTERM, SIGKILL])
    func interrupted(signal: Int32) async throws {
        try bed.server.answer("/a", Answer(length: 200_000).with(\.holdAfter, 100_000), Answer(length: 200_000))
        let get = bed.sandbox.start(
            CommandSandbox.executable,
            ["download", "get", bed.server.url("/a").absoluteString, "--only-anchor", "authority.pem"],
            input: FileHandle.nullDevice)
        let errors = Pipe()
        get.standardError = errors
        try get.run()
        #expect(try await bed.server.waitUntilHeld())
        kill(get.processIdentifier, signal)
        let said = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        get.waitUntilExit()
        let left = try bed.list()
        #expect(left.map { $0["state"] as? String } == ["queued"])
        if signal != SIGKILL {
            #expect(get.terminationStatus == 130)
            #expect(said.contains("\(left.first?["id"] as? String ?? "?") stays in the list"))
        }
        try bed.server.release()
        #expect(try bed.get("/a").status == 0)
        #expect(try bed.list().count == 1)
        #expect(try bed.sandbox.run("cat", "a").output == Data(Answer.pattern(0..<200_000)))
    }

    @Test("A get of the same file with other checks is refused, and the first one stays as it is")
    func otherOptions() throws {
        let url = bed.server.url("/a").absoluteString
        #expect(try bed.download("add", url).status == 0)
        let done = try bed.download("get", url, "--sha256", String(repeating: "0", count: 64))
        #expect(done.status == 73)
        #expect(done.errors.contains("other options"))
    }

    @Test("Two URLs that end alike: one of them has the name, replaced or not", arguments: [true, false])
    func sameName(replaces: Bool) throws {
        for (path, length) in [("/1/a", 1000), ("/2/a", 2000)] { try bed.server.answer(path, Answer(length: length)) }
        let urls = ["/1/a", "/2/a", "/1/a"].map { bed.server.url($0).absoluteString }
        let words = ["download", "get", "--only-anchor", "authority.pem"] + (replaces ? ["--replace"] : [])
        let done = try bed.sandbox.run(words + urls)
        #expect(done.status == 64 && done.errors.contains("/2/a"), "\(done.errors)")
        #expect(try bed.sandbox.run("cat", "a").output.count == 1000)
    }

    @Test("A cookie in the arguments, which others can read, gives a warning")
    func cookie() throws {
        try bed.server.answer("/a", Answer(length: 1000))
        let done = try bed.get("/a", "-H", "Cookie: a=b")
        #expect(done.status == 0 && done.errors.contains("warning: others"), "\(done.errors)")
    }

    @Test("A get at another pace goes on with the first one, and says so")
    func otherPace() throws {
        try bed.server.answer("/a", Answer(length: 1000))
        let url = bed.server.url("/a").absoluteString
        #expect(try bed.download("add", url, "--only-anchor", "authority.pem").status == 0)
        let done = try bed.get("/a", "--limit-rate", "1M")
        #expect(done.status == 0 && done.errors.contains("that it was added with"), "\(done.errors)")
    }

    @Test("A get that failed before the first byte can be repeated with the option that it lacked")
    func missingAnchor() throws {
        try bed.server.answer("/a", Answer(length: 1000))
        #expect(try bed.download("get", bed.server.url("/a").absoluteString).status == 76)
        let done = try bed.get("/a")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try bed.list().map { $0["state"] as? String } == ["finished"])
    }

    @Test(
        "probe shows chain, pins and verdict; trust add accepts one reason for one certificate, and is listed and removed"
    )
    func trust() throws {
        let url = bed.server.url("/").absoluteString
        let probe = try bed.download("probe", url, "--json")
        #expect(probe.status == 76)
        let shown = try probe.json() as? [String: Any] ?? [:]
        let certificates = shown["certificates"] as? [[String: Any]] ?? []
        let digest = certificates.first?["sha256"] as? String ?? ""
        #expect(shown["isTrusted"] as? Bool == false && digest.count == 64)
        #expect(try bed.server.received().isEmpty)
        let trusted = try bed.download("probe", url, "--only-anchor", "authority.pem")
        #expect(trusted.status == 0 && trusted.text.contains("sha256//"))

        // What the hint says to type, is typed.
        let hint = probe.errors.split(separator: "\n").first { $0.contains("protectfs: hint: ") } ?? ""
        let words = hint.split(separator: " ").drop { $0 != "download" }.map { String($0.filter { $0 != "'" }) }
        #expect(try bed.sandbox.run(words).status == 0, "\(hint)")
        #expect(try bed.download("probe", url).status == 0)
        #expect(try bed.download("trust", "list").text.contains(digest))
        #expect(try bed.download("trust", "remove", "localhost:\(bed.server.port)").status == 0)
        #expect(try bed.download("probe", url).status == 76)
        #expect(try bed.download("trust", "remove", "localhost:\(bed.server.port)").status == 66)
        #expect(
            try bed.download("trust", "add", "localhost", "--certificate", digest, "--reason", "pin-mismatch").status
                == 64)
    }

    @Test("An address stands in brackets, and is shown so")
    func address() throws {
        let words = ["--certificate", String(repeating: "ab", count: 32), "--reason", "expired"]
        for (server, status) in [("[::1]:8443", Int32(0)), ("::1", 64), ("proxy://localhost:1", 64), ("a b", 64)] {
            #expect(try bed.sandbox.run(["download", "trust", "add", server] + words).status == status, "\(server)")
        }
        #expect(try bed.download("trust", "list").text.hasPrefix("[::1]:8443  abab"))
        #expect(try bed.download("trust", "remove", "[::1]:8443").status == 0)
    }
}
