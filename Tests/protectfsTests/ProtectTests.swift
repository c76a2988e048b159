import Foundation
import Testing

@Suite("protect and unprotect")
struct ProtectTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func word(_ name: String) throws -> String { try sandbox.run("class", name).text }

    @Test("A file there and back")
    func file() throws {
        try sandbox.put("plain words", at: "file")
        let done = try sandbox.run("protect", "file")
        #expect(done.status == 0)
        #expect(done.text == "")
        #expect(done.errors.components(separatedBy: "old plaintext blocks may survive").count == 2)
        #expect(try word("file") == "complete\n")
        #expect(try !sandbox.stored("file").contains(Data("plain words".utf8)))
        let again = try sandbox.run("protect", "file")
        #expect(again.status == 0)
        #expect(again.errors == "", "nothing was converted")
        #expect(try sandbox.run("unprotect", "file").status == 0)
        #expect(try sandbox.stored("file") == Data("plain words".utf8))
    }

    @Test("A tree: files, defaults of directories, and files made later")
    func tree() throws {
        try sandbox.put("1", at: "tree/one")
        try sandbox.put("2", at: "tree/deeper/two")
        #expect(try sandbox.run("protect", "tree").status == 64, "a directory needs --recursive")
        let asked = try sandbox.run("protect", "--recursive", "tree")
        #expect(asked.status == 64, "nobody is there to ask")
        #expect(asked.errors.contains("2 files"))
        #expect(try word("tree/one") == "", "nothing was touched")
        #expect(try sandbox.run("protect", "--recursive", "--yes", "--class", "unless-open", "tree").status == 0)
        for name in ["tree", "tree/deeper", "tree/one", "tree/deeper/two"] {
            #expect(try word(name) == "unless-open\n")
        }
        try sandbox.run("write", "tree/deeper/three", input: Data("3".utf8))
        #expect(try word("tree/deeper/three") == "unless-open\n")
        #expect(try sandbox.run("unprotect", "--recursive", "tree").status == 0)
        for name in ["tree", "tree/deeper"] { #expect(try word(name) == "-\n") }
        #expect(try sandbox.stored("tree/deeper/three") == Data("3".utf8))
    }

    @Test("Links, devices and files of several names are refused by name; the others are done")
    func refusals() throws {
        try sandbox.put("text", at: "target")
        try sandbox.put("text", at: "first")
        link(sandbox.path("first"), sandbox.path("second"))
        symlink("target", sandbox.path("link"))
        mkfifo(sandbox.path("pipe"), 0o600)
        let done = try sandbox.run("protect", "link", "pipe", "first", "nothing", "target")
        #expect(done.status == 77)
        for name in ["link", "pipe", "first", "nothing"] { #expect(done.errors.contains("error: '\(name)'")) }
        #expect(try word("target") == "complete\n")
    }

    @Test("Root, home, its parents, shells and ssh are refused; inside a tree they are left out")
    func unprotectable() throws {
        try sandbox.put("key", at: "home/.ssh/id")
        try sandbox.put("alias", at: "home/.bashrc")
        try sandbox.put("prompt", at: "home/.config/fish/config.fish")
        try sandbox.put("text", at: "home/documents/text")
        try sandbox.put("key", at: "home/documents/.ssh/id")
        let given = [
            "/", "home", ".", "home/.ssh", "home/.ssh/id", "home/.bashrc", "home/.config/fish", "keybag",
            "state/protectfs",
        ]
        for path in given {
            let done = try sandbox.run("protect", "--recursive", "--yes", path)
            #expect(done.status == 77, "\(path)")
        }
        #expect(try sandbox.stored("home/documents/text") == Data("text".utf8))
        let done = try sandbox.run("protect", "--recursive", "--yes", "home/documents")
        #expect(done.status == 0)
        #expect(done.errors.contains("warning: 'home/documents/.ssh' is left out"))
        #expect(try word("home/documents/text") == "complete\n")
        #expect(try sandbox.stored("home/documents/.ssh/id") == Data("key".utf8))
    }

    @Test("A protected file that an editor has saved as text is called that by every verb, and protect leaves it alone")
    func mangled() throws {
        try sandbox.protectedFile("file")
        let bytes = try sandbox.stored("file").flatMap { $0 == 0x0A ? [0x0D, 0x0A] : [$0] }
        try Data(bytes).write(to: URL(fileURLWithPath: sandbox.path("file")))
        try sandbox.put("text", at: "tree/other")
        try Data(bytes).write(to: URL(fileURLWithPath: sandbox.path("tree/file")))
        let given = [
            ["cat", "file"], ["explain", "--stored", "file"], ["verify", "file"], ["protect", "file"],
            ["protect", "--recursive", "--yes", "tree"], ["upgrade", "tree"],
        ]
        for words in given {
            let done = try sandbox.run(words)
            #expect(done.status == 65, "\(words): \(done.errors)")
            #expect(done.errors.contains("was a protected file until another program changed it: its line ends"))
            #expect(done.errors.contains("hint: restore the file from a backup"))
            #expect(!done.errors.contains("protect it first"))
        }
        let explained = try sandbox.run("explain", "file")
        #expect(explained.status == 0 && explained.text.contains("was a protected file"))
        #expect(explained.text.contains("restore the file from a backup"))
        #expect(try sandbox.stored("file") == Data(bytes))
    }

    @Test(
        "A SQLite database is refused, with the files beside it; explain says why, and --include databases converts it alone"
    )
    func databases() throws {
        try sandbox.put("SQLite format 3\0and more", at: "data.db")
        try sandbox.put("log", at: "data.db-wal")
        let refused = try sandbox.run("protect", "data.db", "data.db-wal")
        #expect(refused.status == 77)
        #expect(refused.errors.contains("error: 'data.db' is a SQLite database"))
        #expect(refused.errors.contains("protectfs protect --include databases 'data.db'"))
        #expect(refused.errors.contains("error: 'data.db-wal' belongs to the SQLite database 'data.db'"))
        let explained = try sandbox.run("explain", "data.db")
        #expect(explained.status == 0 && explained.text.contains("is a SQLite database"))
        #expect(try sandbox.run("protect", "--include", "databases", "data.db").status == 75, "it is in use")
        #expect(try sandbox.stored("data.db") == Data("SQLite format 3\0and more".utf8))
        try sandbox.put("", at: "data.db-wal")
        #expect(try sandbox.run("protect", "--include", "databases", "data.db").status == 0)
        #expect(try word("data.db") == "complete\n")
    }

    @Test("While locked: one error, not one a file; unless-open works")
    func locked() throws {
        try sandbox.put("1", at: "tree/one")
        try sandbox.put("2", at: "tree/two")
        try sandbox.run("lock")
        let done = try sandbox.run("protect", "--recursive", "--yes", "tree")
        #expect(done.status == 75)
        #expect(done.errors.components(separatedBy: "error:").count == 2)
        #expect(try sandbox.run("protect", "--recursive", "--yes", "--class", "unless-open", "tree").status == 0)
        #expect(try sandbox.run("unprotect", "tree/one").status == 75)
        #expect(try word("tree/one") == "unless-open\n")
    }

    @Test("A name that is not UTF-8")
    func notUTF8() throws {
        let script = """
            name=$(printf 'caf\\351'); echo text >"$name"
            "$PROTECTFS" protect "$name" && "$PROTECTFS" cat "$name" && "$PROTECTFS" ls --json "./$name"
            """
        let done = try sandbox.shell(script)
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.text.hasPrefix("text\n"))
        #expect(
            done.text.contains(
                "\"pathBase64\": \"\(Data([0x2E, 0x2F, 0x63, 0x61, 0x66, 0xE9]).base64EncodedString())\""))
    }
}
