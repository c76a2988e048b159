import Foundation
import Testing

@Suite("ls and class")
struct LsAndClassTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func tree() throws {
        try sandbox.put("plain", at: "tree/plain")
        try sandbox.protectedFile("tree/a", Data(repeating: 1, count: 5000))
        try FileManager.default.createDirectory(
            atPath: sandbox.path("tree/sub"), withIntermediateDirectories: true)
        try sandbox.protectedFile("tree/sub/b", Data("b".utf8), "none")
        symlink("a", sandbox.path("tree/link"))
        try sandbox.run("class", "tree/sub", "unless-open")
    }

    @Test("Classes and true sizes in every state", arguments: [true, false])
    func list(isLocked: Bool) throws {
        try tree()
        if isLocked { try sandbox.run("lock") }
        let done = try sandbox.run("ls", "-R", "tree")
        #expect(done.status == 0, "\(done.errors)")
        let lines = done.text.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(
            lines == [
                ["complete", "5000", "tree/a"], ["-", "-", "tree/link"], ["-", "5", "tree/plain"],
                ["unless-open", "-", "tree/sub/"], ["none", "1", "tree/sub/b"],
            ])
        #expect(try sandbox.run("ls", "tree").text.split(separator: "\n").count == 4)
    }

    @Test("JSON says the same")
    func json() throws {
        try tree()
        let entries = try #require(try sandbox.run("ls", "-R", "--json", "tree").json() as? [[String: Any]])
        #expect(
            entries.map { $0["path"] as? String } == ["tree/a", "tree/link", "tree/plain", "tree/sub", "tree/sub/b"])
        #expect(entries.map { $0["class"] as? String } == ["complete", nil, nil, "unless-open", "none"])
        #expect(entries.map { $0["size"] as? Int } == [5000, nil, 5, nil, 1])
        #expect(entries.map { $0["kind"] as? String } == ["file", "link", "file", "directory", "file"])
    }

    @Test("JSON of many files takes as little memory as the list for people")
    func memory() throws {
        let names = "seq -f 'many/a-name-of-some-length-%.0f' 20000"
        #expect(try sandbox.shell("mkdir many && \(names) | xargs touch").status == 0)
        // Of the largest child, in KiB.
        let measure = """
            import resource, subprocess, sys
            subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
            print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
            """
        let peaks = try [[], ["--json"]].map { options in
            let done = try sandbox.shell(
                "exec python3 -c \"$0\" \"$@\"",
                [measure, CommandSandbox.executable, "ls", "-R", "many"] + options)
            return try #require(Int(done.text.trimmingCharacters(in: .whitespacesAndNewlines)), "\(done.errors)")
        }
        // A sanitizer keeps freed memory for a while.
        let variables = ProcessInfo.processInfo.environment
        if variables["TSAN_OPTIONS"] == nil, variables["ASAN_OPTIONS"] == nil {
            #expect(peaks[1] < peaks[0] + 4096, "\(peaks) KiB")
        }
        let entries = try sandbox.run("ls", "-R", "--json", "many").json() as? [[String: Any]]
        #expect(entries?.count == 20_000)
        #expect(try sandbox.shell("mkdir none").status == 0)
        #expect(try sandbox.run("ls", "--json", "none").text == "[]\n")
    }

    @Test("A damaged file is marked, and the status is 65")
    func damaged() throws {
        try sandbox.protectedFile("file")
        let stored = try FileHandle(forUpdating: URL(fileURLWithPath: sandbox.path("file")))
        try stored.seek(toOffset: 20)
        try stored.write(contentsOf: Data(repeating: 0xAA, count: 400))
        try stored.seek(toOffset: 4096)
        try stored.write(contentsOf: Data(repeating: 0xAA, count: 100))
        try stored.close()
        let done = try sandbox.run("ls", "file", "nothing")
        #expect(done.status == 65)
        #expect(done.text.hasPrefix("damaged"))
        let json = try sandbox.run("ls", "--json", "file").json() as? [[String: Any]]
        #expect((json?.first?["error"] as? String)?.contains("damaged") == true)
    }

    @Test("Names that do something to a terminal are quoted there, and only there")
    func controlCharacters() throws {
        try sandbox.protectedFile("a\u{1B}[31mb")
        #expect(try sandbox.run("ls", "a\u{1B}[31mb").text.hasSuffix("a\u{1B}[31mb\n"))
        let seen = try PseudoTerminal.run(["ls", "a\u{1B}[31mb"], in: sandbox, [])
        #expect(seen.shown.contains("$'a\\x1b[31mb'"))
    }

    @Test("class prints, and changes many at once")
    func classes() throws {
        let names = (0..<50).map { "file\($0)" }
        for name in names { try sandbox.protectedFile(name) }
        #expect(try sandbox.run("class", "file0").text == "complete\n")
        #expect(try sandbox.run("class", "file0", "file1").text == "complete\tfile0\ncomplete\tfile1\n")
        let refused = try sandbox.run(["class"] + names + ["first-unlock"])
        #expect(refused.status == 77)
        #expect(refused.errors.components(separatedBy: "hint:").count == 2, "a hint is given once")
        #expect(try sandbox.run(["class", "--allow-weaker"] + names + ["first-unlock"]).status == 0)
        #expect(try sandbox.run(["class"] + names).text == names.map { "first-unlock\t\($0)\n" }.joined())
        #expect(try sandbox.run(["class"] + names + ["NSFileProtectionComplete"]).status == 0)
    }

    @Test("While locked: the same class is no change and needs no key; any other is 75")
    func locked() throws {
        try sandbox.protectedFile("file")
        try sandbox.protectedFile("c", Data(), "first-unlock")
        try sandbox.run("lock")
        #expect(try sandbox.run("class", "file", "complete").status == 0)
        #expect(try sandbox.run("class", "--allow-weaker", "file", "none").status == 75)
        #expect(try sandbox.run("class", "c", "unless-open").status == 0)
        #expect(try sandbox.run("class", "file", "c").text == "complete\tfile\nunless-open\tc\n")
    }

    @Test("Errors of several files")
    func failures() throws {
        try sandbox.protectedFile("file")
        try sandbox.put("plain", at: "plain")
        let done = try sandbox.run("class", "missing", "plain", "file")
        #expect(done.status == 65)
        #expect(done.text == "complete\tfile\n")
        let json = try sandbox.run("class", "--json", "file", "missing")
        #expect(json.status == 66)
        #expect((try json.json() as? [[String: Any]])?.count == 1)
    }

    @Test("A file of a remembered keybag is read without --keybag, and changed with it; of an unknown one it is 66")
    func otherKeybags() throws {
        let other = sandbox.path("other")
        try sandbox.makeKeybag(in: other)
        defer { sandbox.evictKeys(of: other) }
        try sandbox.unlock("--keybag", other)
        #expect(try sandbox.run("write", "file", "--keybag", other, input: Data("x".utf8)).status == 0)
        #expect(try sandbox.run("cat", "file").text == "x")
        #expect(try sandbox.run("class", "file", "complete").status == 66)
        #expect(try sandbox.run("class", "file", "complete", "--keybag", other).status == 0)
        #expect(try sandbox.run("write", "--append", "file", input: Data("y".utf8)).status == 66)
        #expect(try sandbox.run("write", "--append", "file", "--keybag", other, input: Data("z".utf8)).status == 0)
        #expect(try sandbox.run("cat", "file", "--keybag", other).text == "xz")
        try FileManager.default.removeItem(atPath: sandbox.path("state/protectfs/keybags"))
        let done = try sandbox.run("cat", "file")
        #expect(done.status == 66)
        #expect(done.errors.contains("which is not available to you"))
    }
}

@Suite("Thousands of arguments")
struct LongArgumentListTests {
    @Test("Come through in order, with options before, between and behind")
    func order() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        let names = (0..<200).map { "file\($0)" }
        for name in names { try sandbox.put(name, at: name) }
        let done = try sandbox.run(["protect", "--keybag", sandbox.keybagDirectory] + names + ["--class", "none"])
        #expect(done.status == 0, "\(done.errors)")
        let read = try sandbox.run(
            ["cat"] + names.prefix(100) + ["--keybag", sandbox.keybagDirectory] + names.suffix(100))
        #expect(read.text == names.joined())
        #expect(try sandbox.run(["class"] + names + ["complete"]).status == 0)
        #expect(try sandbox.run(["class", "--"] + names).text == names.map { "complete\t\($0)\n" }.joined())
    }

    @Test("Too many for the verb are a usage error that a person can read")
    func tooMany() throws {
        let sandbox = try CommandSandbox()
        let done = try sandbox.run(["write"] + (0..<200).map { "file\($0)" })
        #expect(done.status == 64)
        #expect(done.errors.unicodeScalars.allSatisfy { $0.value >= 32 || $0 == "\n" })
    }
}
