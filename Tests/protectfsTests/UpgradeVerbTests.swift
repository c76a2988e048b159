import Foundation
import Testing

@testable import DataProtection

@Suite("upgrade, and unlock --wait")
struct UpgradeVerbTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func word(_ name: String) throws -> String { try sandbox.run("class", name).text }

    @Test("A tree, twice; the second time nothing is said and nothing is done")
    func tree() throws {
        try sandbox.put("1", at: "tree/one")
        try sandbox.put("2", at: "tree/deep/two")
        let first = try sandbox.run("upgrade", "tree")
        #expect(first.status == 0, "\(first.errors)")
        #expect(first.text == "")
        #expect(first.errors.contains("old plaintext blocks may survive"))
        for name in ["tree", "tree/deep", "tree/one", "tree/deep/two"] { #expect(try word(name) == "complete\n") }
        let stored = try sandbox.stored("tree/one")
        let second = try sandbox.run("upgrade", "--class", "none", "tree")
        #expect(second.status == 0)
        #expect(second.text + second.errors == "")
        #expect(try sandbox.stored("tree/one") == stored)
        #expect(try sandbox.run("cat", "tree/deep/two").text == "2")
    }

    @Test("--dry-run prints the planned changes as text and as JSON, and makes none")
    func dryRun() throws {
        try sandbox.put("1", at: "tree/one")
        try sandbox.protectedFile("tree/two", Data("2".utf8), "none")
        let text = try sandbox.run("upgrade", "--dry-run", "tree")
        #expect(text.status == 0)
        #expect(text.text == "protect complete  tree/one\nraise complete  tree/two\n")
        #expect(text.errors == "")
        let json = try sandbox.run("upgrade", "--dry-run", "--json", "tree").json() as? [String: Any]
        let files = json?["files"] as? [[String: Any]]
        #expect(files?.map { $0["result"] as? String } == ["converted", "raised"])
        #expect((json?["summary"] as? [String: Any])?["converted"] as? Int == 1)
        #expect(try sandbox.stored("tree/one") == Data("1".utf8))
    }

    @Test("Rules: from a file, not from the tree; files that no rule names stay as they are")
    func rules() throws {
        for name in ["tree/mail/1", "tree/x.log", "tree/other", "tree/vendor/v"] { try sandbox.put("text", at: name) }
        try sandbox.put("# mine\nvendor/ -\n*.log unless-open\nmail/** complete\n", at: "rules")
        #expect(try sandbox.run("upgrade", "--rules", "rules", "tree").status == 0)
        #expect(try word("tree/mail/1") == "complete\n")
        #expect(try word("tree/x.log") == "unless-open\n")
        for name in ["tree/other", "tree/vendor/v"] { #expect(try sandbox.stored(name) == Data("text".utf8)) }
        try sandbox.put("* none\n", at: "tree/rules")
        let refused = try sandbox.run("upgrade", "--rules", "tree/rules", "tree")
        #expect(refused.status == 78)
        #expect(refused.errors.contains("rules for 'tree' must not be inside it"))
        try sandbox.put("* secret\n", at: "rules")
        let wrong = try sandbox.run("upgrade", "--rules", "rules", "tree")
        #expect(wrong.status == 78)
        #expect(wrong.errors.contains("'rules', line 1: there is no class secret"))
    }

    @Test("While locked: queued, said, listed, and done by unlock --wait")
    func locked() throws {
        for number in 1...3 { try sandbox.put("\(number)", at: "tree/\(number)") }
        try sandbox.run("lock")
        let done = try sandbox.run("upgrade", "tree")
        #expect(done.status == 75)
        #expect(done.errors.contains("error: 3 files locked; the next unlock upgrades what is left"))
        #expect(done.errors.components(separatedBy: "error:").count == 2, "one, not one a file")
        #expect(try sandbox.run("upgrade", "tree").status == 75)
        let root = try FilePath(sandbox.root).resolved()
        #expect(try sandbox.run("queue").text == "upgrade to complete  \(root)/tree\n", "one note, however often")
        #expect(try sandbox.run("status").text.contains("\n1 queued: protectfs queue\n"))
        #expect(try sandbox.run("upgrade", "--queued").status == 75)
        try sandbox.unlock("--wait")
        for number in 1...3 { #expect(try word("tree/\(number)") == "complete\n") }
        #expect(try sandbox.run("queue").text == "")
        #expect(try sandbox.run("cat", "tree/2").text == "2")
    }

    @Test("Files that arrive unprotected while locked can be class unless-open at once")
    func unlessOpenWhileLocked() throws {
        try sandbox.put("1", at: "tree/one")
        try sandbox.run("lock")
        #expect(try sandbox.run("upgrade", "--class", "unless-open", "tree").status == 0)
        #expect(try word("tree/one") == "unless-open\n")
    }

    @Test("A lock in the middle: the rest is queued, and the next unlock finishes it")
    func lockedInTheMiddle() throws {
        let count = 400
        for number in 0..<count { try sandbox.put(String(repeating: "x", count: 9000), at: "tree/\(number)") }
        let script = """
            "$PROTECTFS" upgrade --jobs 1 tree & upgrade=$!
            while [ "$("$PROTECTFS" class "tree/0")" != complete ]; do :; done
            "$PROTECTFS" lock
            wait $upgrade
            """
        let done = try sandbox.shell(script)
        #expect(done.status == 75 || done.status == 0, "\(done.errors)")
        if done.status == 0 { print("lock in the middle: the upgrade was faster") }
        try sandbox.unlock("--wait")
        let json = try sandbox.run("upgrade", "--json", "tree").json() as? [String: Any]
        #expect((json?["summary"] as? [String: Any])?["unchanged"] as? Int == count)
        #expect(try sandbox.run("queue").text == "")
    }

    @Test("kill -9, over and over: no file is lost or half-made, nothing is left over, and it goes on")
    func killed() throws {
        let names = (0..<120).map { "tree/\($0 % 4)/\($0)" }
        func text(_ name: String) -> String { String(repeating: name, count: 4000) }
        for name in names { try sandbox.put(text(name), at: name) }
        var plain = names.sorted()
        var counts: [Int] = []
        while counts.count < 20, let next = plain.dropFirst(4).first {
            // When this file has changed its size, others are under way.
            let script = """
                size() { stat -c %s "\(next)"; }
                old=$(size)
                "$PROTECTFS" upgrade tree & upgrade=$!
                for try in $(seq 2000); do [ "$(size)" = "$old" ] || break; done
                kill -9 $upgrade
                """
            _ = try sandbox.shell(script)
            let isPlain = try plain.filter { try sandbox.stored($0) == Data(text($0).utf8) }
            let changed = Set(plain).subtracting(isPlain)
            let listed = try changed.isEmpty ? [] : sandbox.run(["ls"] + changed).text.split(separator: "\n")
            #expect(listed.count == changed.count && listed.allSatisfy { $0.hasPrefix("complete ") }, "\(listed)")
            plain = isPlain
            counts.append(names.count - plain.count)
        }
        #expect(counts.contains { 0 < $0 && $0 < names.count })
        #expect(try sandbox.run("upgrade", "tree").status == 0)
        // Each text is its file's name, many times: what is missing or in another place is seen.
        #expect(try sandbox.run(["cat"] + names).text == names.map(text).joined())
        let found = FileManager.default.subpaths(atPath: sandbox.path("tree"))?.count
        #expect(found == names.count + 4, "nothing is left over")
        print("protectfs upgrade: \(counts.count) kills, done after each: \(counts)")
    }

    @Test("Failures are named, the others are done, and the status says so")
    func failures() throws {
        for name in ["tree/a", "tree/b"] { try sandbox.put("text", at: name) }
        link(sandbox.path("tree/a"), sandbox.path("tree/second"))
        let done = try sandbox.run("upgrade", "tree")
        #expect(done.status == 77)
        #expect(done.errors.contains("error: 'tree/a' has 2 names"))
        #expect(try word("tree/b") == "complete\n")
    }

    @Test("Databases are left out and counted, and included if asked for")
    func databases() throws {
        try sandbox.put("SQLite format 3\0and more", at: "tree/data.db")
        try sandbox.put("log", at: "tree/data.db-wal")
        let plan = try sandbox.run("upgrade", "--dry-run", "tree")
        #expect(plan.errors == "protectfs: note: 2 files of SQLite databases left out: --include databases\n")
        let done = try sandbox.run("upgrade", "tree")
        #expect(done.status == 0)
        #expect(done.errors == "protectfs: note: 2 files of SQLite databases left out: --include databases\n")
        let inUse = try sandbox.run("upgrade", "--include", "databases", "tree")
        #expect(inUse.status == 75)
        #expect(inUse.errors.contains("'tree/data.db-wal' may hold data that is not in it yet"))
        #expect(inUse.errors.contains("sqlite3 'tree/data.db' 'PRAGMA journal_mode=DELETE'"))
        #expect(try sandbox.stored("tree/data.db") == Data("SQLite format 3\0and more".utf8))
        unlink(sandbox.path("tree/data.db-wal"))
        #expect(try sandbox.run("upgrade", "--include", "databases", "tree").status == 0)
        #expect(try word("tree/data.db") == "complete\n")
    }

    @Test("Files that programs need are left out, counted, listed by --dry-run and --json; --include adds them")
    func leftOut() throws {
        try sandbox.put("ref: refs/heads/main", at: "tree/.git/HEAD")
        try sandbox.put("#!/bin/sh\n", at: "tree/script")
        chmod(sandbox.path("tree/script"), 0o755)
        try sandbox.put("", at: "tree/dovecot.lock")
        try sandbox.put("text", at: "tree/text")
        let notes = [
            "1 version-control store left out: --include version-control",
            "1 executable left out: --include executables",
            "1 lock file left out: --include lock-files",
        ].map { "protectfs: note: \($0)\n" }.joined()
        let plan = try sandbox.run("upgrade", "--dry-run", "tree")
        #expect(
            plan.text == """
                leave out version-control store  tree/.git
                leave out lock file  tree/dovecot.lock
                leave out executable  tree/script
                protect complete  tree/text

                """)
        #expect(plan.errors == notes)
        let done = try sandbox.run("upgrade", "--json", "tree")
        #expect(done.status == 0 && done.errors.contains(notes))
        let json = try done.json() as? [String: Any]
        let files = json?["files"] as? [[String: Any]]
        #expect(files?.compactMap { $0["reason"] as? String } == ["versionControl", "lockFile", "executable"])
        let counts = (json?["summary"] as? [String: Any])?["leftOut"] as? [String: Any]
        #expect(
            counts?.compactMapValues { $0 as? Int } == [
                "database": 0, "versionControl": 1, "executable": 1, "lockFile": 1,
            ])
        #expect(try sandbox.stored("tree/.git/HEAD") == Data("ref: refs/heads/main".utf8))
        let recursive = try sandbox.run("protect", "--recursive", "--yes", "tree")
        #expect(recursive.status == 0 && recursive.errors.contains(notes))
        #expect(recursive.errors.contains("warning: 'tree/script' is left out: it is a program"))
        #expect(try sandbox.run("protect", "tree/script").status == 0, "it was named")
        #expect(try word("tree/script") == "complete\n")
        #expect(
            try sandbox.run("upgrade", "--include", "version-control", "--include", "lock-files", "tree").status == 0)
        for name in ["tree/.git/HEAD", "tree/dovecot.lock"] { #expect(try word(name) == "complete\n") }
        #expect(try sandbox.run("upgrade", "--include", "everything", "tree").status == 64)
        #expect(try sandbox.run("upgrade", "--queued", "--include", "executables").status == 64)
    }

    @Test("A tree that is refused as a whole is an error, and nothing is touched", arguments: [[], ["--dry-run"]])
    func refused(options: [String]) throws {
        try sandbox.put("text", at: "file")
        let home = try sandbox.shell("HOME=$PWD \"$PROTECTFS\" upgrade \(options.joined()) .")
        #expect(home.status == 77)
        #expect(home.errors.hasPrefix("protectfs: error: '.' is not upgraded: it is the home directory\n"))
        #expect(home.errors.contains("hint: name directories below it"))
        #expect(try sandbox.run(["upgrade", "/"] + options).status == 77)
        #expect(try sandbox.stored("file") == Data("text".utf8))
        let file = try sandbox.run("upgrade", "file")
        #expect(file.status == 66)
        #expect(file.errors.contains("hint: for single files: protectfs protect 'file'"))
    }

    @Test("unlock --wait waits for a process that is at the upgrade already")
    func doneElsewhere() throws {
        try sandbox.put("1", at: "tree/one")
        try sandbox.run("lock")
        #expect(try sandbox.run("upgrade", "tree").status == 75)
        let note = try sandbox.shell("ls \"$PROTECTFS_KEYBAG\"/queue/*").text.trimmingCharacters(in: .newlines)
        // As whoever does it; it is a dead process's when this one ends.
        let holding = try FileHandle(forUpdating: URL(fileURLWithPath: note))
        #expect(flock(holding.fileDescriptor, LOCK_EX) == 0)
        let waiting = Thread {
            Thread.sleep(forTimeInterval: 2)
            flock(holding.fileDescriptor, LOCK_UN)
        }
        waiting.start()
        let done = try sandbox.run(
            "unlock", "--wait", "--passcode-fd", "3", passcodes: Data(CommandSandbox.passcode.utf8))
        #expect(done.status == 0)
        #expect(!done.errors.contains("still open"), "\(done.errors)")
        #expect(try word("tree/one") == "complete\n")
        #expect(try sandbox.run("queue").text == "")
    }

    @Test("Usage")
    func usage() throws {
        #expect(try sandbox.run("upgrade").status == 64)
        #expect(try sandbox.run("upgrade", "--queued", "tree").status == 64)
        for option in [["--dry-run"], ["--class", "none"], ["--rules", "r"], ["--json"], ["--jobs", "1"]] {
            #expect(try sandbox.run(["upgrade", "--queued"] + option).status == 64, "it would be done nevertheless")
        }
        #expect(try sandbox.run("upgrade", "--jobs", "0", "tree").status == 64)
        #expect(try sandbox.run("upgrade", "missing").status == 66)
        #expect(try sandbox.run("upgrade", "--queued").status == 0, "nothing waits")
    }
}
