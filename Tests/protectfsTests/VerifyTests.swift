import Foundation
import Testing

@testable import protectfs

@Suite("verify")
struct VerifyTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    /// Ten files and a plaintext one.
    private func makeTree() throws {
        try FileManager.default.createDirectory(
            atPath: sandbox.path("tree/sub"), withIntermediateDirectories: true)
        for number in 0..<10 {
            try sandbox.protectedFile(
                number % 2 == 0 ? "tree/file\(number)" : "tree/sub/file\(number)",
                Data(repeating: UInt8(number), count: number * 20_000), "complete")
        }
        try sandbox.put("plain", at: "tree/plain")
    }

    /// Alters one byte of a stored file.
    private func flip(_ name: String, at place: Int) throws {
        let path = sandbox.path(name)
        var bytes = try sandbox.stored(name)
        bytes[place] ^= 1
        try bytes.write(to: URL(fileURLWithPath: path))
    }

    @Test("Whole files: nothing is said")
    func whole() throws {
        try sandbox.protectedFile("small")
        try sandbox.protectedFile("large", Data(repeating: 7, count: 3 << 20))
        let done = try sandbox.run("verify", "small", "large")
        #expect(done.status == 0 && done.text == "" && done.errors == "")
    }

    @Test("A tree with damage: every damaged part by name, in order, and a summary", arguments: ["1", "8"])
    func damage(jobs: String) throws {
        try makeTree()
        try flip("tree/file4", at: 9000)
        try flip("tree/sub/file9", at: 8300)
        try flip("tree/sub/file9", at: 8192 + 65_564 * 2 + 50)
        let done = try sandbox.run("verify", "-r", "--jobs", jobs, "tree")
        #expect(done.status == 65 && done.text == "")
        let lines = done.errors.split(separator: "\n").map(String.init)
        #expect(
            lines == [
                "protectfs: error: 'tree/file4' is damaged or altered: bytes 0 to 65535 do not open",
                "protectfs: error: 'tree/sub/file9' is damaged or altered: bytes 0 to 65535 do not open",
                "protectfs: error: 'tree/sub/file9' is damaged or altered: bytes 131072 to 179999 do not open",
                "protectfs: note: 8 files whole, 2 with errors, 1 not protected",
            ])
    }

    @Test("Plaintext: an error by its own name, counted in a tree, named where the directory says otherwise")
    func plaintext() throws {
        try makeTree()
        #expect(try sandbox.run("verify", "tree/plain").status == 65)
        let counted = try sandbox.run("verify", "-r", "tree")
        #expect(counted.status == 0)
        #expect(counted.errors == "protectfs: note: 10 files whole, 1 not protected\n")
        try sandbox.run("class", "tree", "complete")
        let named = try sandbox.run("verify", "-r", "tree")
        #expect(named.status == 0)
        #expect(named.errors.contains("warning: 'tree/plain' is not protected, though"))
    }

    @Test("Not closed is not damaged; being written to is neither")
    func unclosed() throws {
        try sandbox.protectedFile("file", Data(repeating: 1, count: 50_000))
        let whole = try sandbox.stored("file")
        try (whole + Data([1, 2, 3])).write(to: URL(fileURLWithPath: sandbox.path("file")))
        let done = try sandbox.run("verify", "file")
        #expect(done.status == 65)
        #expect(done.errors.contains("3 bytes after its end that another program appended; they are not protected"))
        #expect(done.errors.contains("tail -c 3 'file'") && !done.errors.contains("damaged"), "\(done.errors)")
        let read = try sandbox.run("cat", "file")
        #expect(read.status == 0 && read.output == Data(repeating: 1, count: 50_000))
        #expect(read.errors.contains("warning: 'file' has 3 bytes after its end"), "\(read.errors)")
        let appended = try sandbox.run("write", "--append", "file", input: Data("x".utf8))
        #expect(appended.status == 0 && appended.errors.contains("file.appended-1'"), "\(appended.errors)")
        #expect(try sandbox.stored("file.appended-1") == Data([1, 2, 3]))
        try whole.write(to: URL(fileURLWithPath: sandbox.path("file")))
        // Two pieces: the first is committed, and the second keeps the writer waiting.
        let script = """
            mkfifo pipe; "$PROTECTFS" write --append file <pipe & exec 4>pipe; printf first >&4
            for _ in $(seq 200); do [ "$("$PROTECTFS" cat --range=-5 file)" = first ] && break; sleep 0.05; done
            "$PROTECTFS" verify --json file; status=$?; "$PROTECTFS" verify file; exec 4>&-; wait
            "$PROTECTFS" verify file && exit $status
            """
        let written = try sandbox.shell(script)
        #expect(written.status == 75, "\(written.errors)")
        #expect(written.errors.contains("'file' is being written to; what was committed is whole"))
        let document = try #require(try written.json() as? [String: Any])
        let file = try #require((document["files"] as? [[String: Any]])?.first)
        #expect(file["verdict"] as? String == "beingWritten" && file["status"] as? Int == 75)
    }

    @Test("A damaged head that hides later changes is 65 for verify and cat, a file that was not closed 75")
    func hiddenCommits() throws {
        let script = """
            printf old | "$PROTECTFS" write file; mkfifo pipe; "$PROTECTFS" write --append file <pipe & exec 4>pipe; printf new >&4
            for _ in $(seq 200); do [ "$("$PROTECTFS" cat file)" = oldnew ] && break; sleep 0.05; done; kill -KILL $!; wait $!
            "$PROTECTFS" verify file
            """
        let killed = try sandbox.shell(script)
        #expect(killed.status == 75 && killed.errors.contains("was not closed"), "\(killed.errors)")
        // The second head holds the second commit.
        try flip("file", at: 4096 + 390)
        let verified = try sandbox.run("verify", "file")
        #expect(verified.status == 65 && verified.errors.contains("may have held a later state"), "\(verified.errors)")
        let read = try sandbox.run("cat", "file")
        #expect(read.status == 65 && read.text == "old", "\(read.errors)")
        // What works on the plaintext says it too, and destroys nothing.
        let ran = try sandbox.shell(#""$PROTECTFS" run file -- cat {}"#)
        #expect(ran.errors.contains("may have held a later state"), "\(ran.status) \(ran.errors)")
        let before = try sandbox.shell("head -c 8192 file | sha256sum").text
        let edited = try sandbox.shell(
            #"printf 'printf more >>"$1"' >editor; EDITOR='sh ./editor' "$PROTECTFS" edit file"#)
        #expect(edited.status == 0 && edited.errors.contains("may have held a later state"), "\(edited.errors)")
        #expect(try sandbox.run("cat", "file").text == "oldmore")
        #expect(try sandbox.shell("head -c 8192 file.remains-1 | sha256sum").text == before)
    }

    @Test("JSON: every file, and a summary")
    func json() throws {
        try makeTree()
        try flip("tree/file4", at: 9000)
        let done = try sandbox.run("verify", "-r", "--json", "tree")
        #expect(done.status == 65)
        let document = try #require(try done.json() as? [String: Any])
        let files = try #require(document["files"] as? [[String: Any]])
        let names = files.compactMap { $0["path"] as? String }
        #expect(names.count == 10 && names == names.sorted())
        let bad = try #require(files.first { $0["path"] as? String == "tree/file4" })
        #expect(bad["verdict"] as? String == "damaged" && bad["status"] as? Int == 65)
        let finding = try #require((bad["findings"] as? [[String: Any]])?.first)
        #expect(finding["kind"] as? String == "chunksDamaged" && finding["offset"] as? Int == 0)
        #expect(finding["bytes"] as? Int == 65_536)
        let summary = try #require(document["summary"] as? [String: Any])
        #expect(summary["whole"] as? Int == 9 && summary["failed"] as? Int == 1 && summary["notProtected"] as? Int == 1)
        let nobody = try CommandSandbox(makesKeybag: false)
        try nobody.put("x", at: "tree/plain")
        #expect(try nobody.run("verify", "-r", "tree").errors.contains("1 not protected"), "without a keybag too")
        let empty = try sandbox.run("verify", "-r", "--json", "state").json() as? [String: Any]
        #expect((empty?["files"] as? [Any])?.count == 0)
    }

    @Test("Locked, foreign and missing files; directories need --recursive")
    func refusals() throws {
        try makeTree()
        #expect(try sandbox.run("verify", "tree").status == 64)
        #expect(try sandbox.run("verify", "nothing").status == 66)
        #expect(try sandbox.run("verify", "--jobs", "0", "tree/file0").status == 64)
        let other = try CommandSandbox()
        try other.protectedFile("foreign", Data("x".utf8), "none")
        #expect(try sandbox.run("verify", other.path("foreign")).status == 66)
        try sandbox.run("lock")
        let done = try sandbox.run("verify", "-r", "tree")
        #expect(done.status == 75)
        #expect(done.errors.contains("0 files whole, 10 with errors, 1 not protected"))
        #expect(done.errors.components(separatedBy: "hint:").count == 2, "one hint for all")
    }

    @Test("Files of another keybag that was used here are verified with that one")
    func remembered() throws {
        let passcode = Data("another".utf8)
        let made = try sandbox.run("init", "--keybag", "other", "--passcode-fd", "3", passcodes: passcode)
        #expect(made.status == 0, "\(made.errors)")
        defer { sandbox.evictKeys(of: sandbox.path("other")) }
        #expect(try sandbox.run("unlock", "--keybag", "other", "--passcode-fd", "3", passcodes: passcode).status == 0)
        let written = try sandbox.run("write", "--keybag", "other", "theirs", input: Data("x".utf8))
        #expect(written.status == 0, "\(written.errors)")
        try sandbox.protectedFile("ours")
        let done = try sandbox.run("verify", "theirs", "ours")
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.errors.hasPrefix("protectfs: warning: 'theirs' belongs to another keybag, "), "\(done.errors)")
        #expect(!done.errors.contains("'ours'"))
    }

    @Test("--strict refuses files whose origin is not verified")
    func strict() throws {
        let fresh = try CommandSandbox()  // never unlocked: no class key C to make the mark with
        try fresh.protectedFile("early", Data("x".utf8), "unless-open")
        try fresh.unlock()
        #expect(try fresh.run("verify", "early").status == 0)
        let done = try fresh.run("verify", "--strict", "early")
        #expect(done.status == 65)
        #expect(done.errors.contains("could have been made by somebody else"))
        try fresh.protectedFile("late", Data("x".utf8), "unless-open")
        #expect(try fresh.run("verify", "--strict", "late").status == 0)
    }

    @Test("A link that is named is followed, links in a tree are not")
    func links() throws {
        try makeTree()
        symlink("tree", sandbox.path("link"))
        symlink("nowhere", sandbox.path("tree/dangling"))
        symlink("file0", sandbox.path("tree/again"))
        let done = try sandbox.run("verify", "-r", "--json", "link")
        #expect(done.status == 0, "\(done.errors)")
        #expect(((try done.json() as? [String: Any])?["files"] as? [Any])?.count == 10)
        symlink("tree/file0", sandbox.path("one"))
        #expect(try sandbox.run("verify", "one").status == 0)
    }

    @Test("More files than are held back at once, in order")
    func manyFiles() throws {
        let script = """
            mkdir many; printf x | "$PROTECTFS" write --class none many/0000
            for n in $(seq -w 1 2500); do ln many/0000 many/$n; done
            "$PROTECTFS" verify -r --json --jobs 4 many
            """
        let done = try sandbox.shell(script)
        #expect(done.status == 0, "\(done.errors)")
        let files = try #require((try done.json() as? [String: Any])?["files"] as? [[String: Any]])
        #expect(files.map { $0["path"] as? String ?? "" } == (0...2500).map { String(format: "many/%04d", $0) })
    }
}

@Suite("verify in a terminal")
struct VerifyTerminalTests {
    /// What lasts for some seconds: 40 GB to open, in one file with many names.
    private func large(_ sandbox: CommandSandbox) throws {
        try sandbox.unlock()
        let script = """
            mkdir tree; head -c 100000000 /dev/zero | "$PROTECTFS" write --class none tree/0
            for n in $(seq 1 400); do ln tree/0 tree/$n; done
            """
        let done = try sandbox.shell(script)
        guard done.status == 0 else { throw CommandSandbox.Unexpected(done.errors) }
    }

    @Test("A bar, and Ctrl-C: it stops soon, with status 130 and no bar left")
    func interrupted() throws {
        let sandbox = try CommandSandbox()
        try large(sandbox)
        let seen = try PseudoTerminal.run(
            ["verify", "-r", "tree"], in: sandbox, [.expect("verifying ["), .send("\u{3}")])
        #expect(seen.status == 130)
        #expect(seen.shown.contains("interrupted; the other files were not checked"))
        // Every state of the bar begins at the left edge, and fits the terminal of 80 columns.
        let bars = seen.shown.components(separatedBy: "\r").filter { $0.contains("verifying [") }
        #expect(!bars.isEmpty && bars.allSatisfy { $0.count < 80 })
        #expect(!seen.shown.contains("\u{1B}"), "terminals differ in their escape sequences")
        let last = try #require(seen.shown.range(of: "protectfs: note", options: .backwards))
        #expect(!seen.shown[last.upperBound...].contains("verifying ["))
    }

    @Test("Interrupted, --json leaves a document that can be read")
    func interruptedJSON() throws {
        let sandbox = try CommandSandbox()
        try large(sandbox)
        let done = try sandbox.shell("\"$PROTECTFS\" verify -r --json tree & sleep 0.5; kill -TERM $!; wait $!")
        #expect(done.status == 130, "\(done.errors)")
        let summary = (try done.json() as? [String: Any])?["summary"] as? [String: Any]
        #expect(summary?["interrupted"] as? Bool == true)
    }
}
