import Foundation
import Testing

@Suite("backup and restore")
struct BackupVerbTests {
    private let sandbox: CommandSandbox
    private static let classes = ["complete", "unless-open", "first-unlock", "none"]

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func tree() throws {
        try sandbox.put("plain", at: "tree/plain")
        for name in Self.classes { try sandbox.protectedFile("tree/\(name)", Data("\(name)\n".utf8), name) }
        symlink("complete", sandbox.path("tree/link"))
    }

    private func summary(_ done: Finished) throws -> [String: Any] {
        let document = try #require(try done.json() as? [String: Any])
        return try #require(document["summary"] as? [String: Any])
    }

    /// With the iterations that are written: the one test that takes its time for it.
    @Test("The first backup, one while locked, and a restore under another keybag")
    func wholeWay() throws {
        try tree()
        let first = try sandbox.run(
            "backup", "--to", "backup", "--passphrase-fd", "3", "tree", passcodes: Data("short\n".utf8))
        #expect(first.status == 0 && first.text == "", "\(first.errors)")
        #expect(first.errors.contains("warning: the passphrase is short"))
        #expect(first.errors.contains("warning: 1 file not protected, so not in the backup\n"))
        try sandbox.run("lock")
        try sandbox.protectedFile("tree/new", Data("new\n".utf8), "unless-open")
        let second = try summary(try sandbox.run("backup", "--to", "backup", "--json", "tree"))
        #expect(second["copied"] as? Int == 1 && second["unchanged"] as? Int == 5)
        #expect(second["notProtected"] as? Int == 1 && second["failed"] as? Int == 0)

        let other = try sandbox.makeOtherKeybag()
        let wrong = try sandbox.restore(to: "target", keybag: other, passphrase: "wrong")
        #expect(wrong.status == 77)
        #expect(wrong.errors == "protectfs: error: wrong passphrase for backup 'backup', or its keybag was altered\n")
        let done = try sandbox.restore(to: "target", keybag: other, passphrase: "short")
        #expect(done.status == 0 && done.text + done.errors == "")
        for name in Self.classes + ["new"] {
            let read = try sandbox.run("cat", "--keybag", other, sandbox.restored("tree/\(name)", in: "target"))
            #expect(read.text == "\(name)\n", "\(read.errors)")
        }
        #expect(!FileManager.default.fileExists(atPath: try sandbox.restored("tree/plain", in: "target")))
    }

    @Test("Locked, the first backup is refused and nothing is made; later ones ask for nothing")
    func locked() throws {
        try tree()
        try sandbox.run("lock")
        let refused = try sandbox.run("backup", "--to", "backup", "tree")
        #expect(refused.status == 75 && refused.errors.contains("cannot back up the class keys of"))
        #expect(refused.errors.contains("hint: unlock first: protectfs unlock\n"))
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("backup")))
        try sandbox.unlock()
        let nobody = try sandbox.run("backup", "--to", "backup", "tree")
        #expect(nobody.status == 64 && nobody.errors.contains("--passphrase-fd"))
        try sandbox.makeBackup()
        try sandbox.run("lock")
        #expect(try sandbox.run("backup", "--to", "backup", "tree").status == 0)
        let renew = try sandbox.run("backup", "--to", "backup", "--new-keybag")
        #expect(renew.status == 75)
        let useless = try sandbox.run("backup", "--to", "backup", "--passphrase-fd", "3", "tree")
        #expect(useless.status == 64 && useless.errors.contains("to store new class keys: --new-keybag"))
        let other = try sandbox.makeOtherKeybag()
        try sandbox.run("lock", "--keybag", other)
        let restore = try sandbox.restore(to: "target", keybag: other)
        #expect(restore.status == 75 && restore.errors.contains("cannot restore into"))
    }

    @Test("After a rotation files are refused, with what to do; then they are copied")
    func rotated() throws {
        try tree()
        try sandbox.makeBackup()
        #expect(try sandbox.run("backup", "--to", "backup", "tree").status == 0)
        let passcode = Data(CommandSandbox.passcode.utf8)
        #expect(try sandbox.run("rotate", "--root", "tree", "--passcode-fd", "3", passcodes: passcode).status == 0)
        let refused = try sandbox.run("backup", "--to", "backup", "tree")
        #expect(refused.status == 75)
        #expect(refused.errors.contains("does not have its class key complete, generation 2"))
        let hint = "hint: while unlocked: protectfs backup --new-keybag --to 'backup'\n"
        #expect(refused.errors.components(separatedBy: hint).count == 2, "said once")
        let wrong = try sandbox.run(
            "backup", "--to", "backup", "--new-keybag", "--passphrase-fd", "3", passcodes: Data("x".utf8))
        #expect(wrong.status == 77)
        let renewed = try sandbox.run(
            "backup", "--to", "backup", "--new-keybag", "--passphrase-fd", "3", "tree",
            passcodes: Data(CommandSandbox.passphrase.utf8))
        #expect(renewed.status == 0, "\(renewed.errors)")
    }

    @Test("A backup within the tree: neither copied into itself, nor rotated, nor upgraded")
    func withinTheTree() throws {
        try tree()
        try sandbox.makeBackup()
        let place = sandbox.path("tree/backup")
        try FileManager.default.moveItem(atPath: sandbox.path("backup"), toPath: place)
        #expect(try sandbox.run("backup", "--to", place, "tree").status == 0)
        let before = try sandbox.shell("find tree/backup -type f | sort | xargs sha256sum").text
        #expect(before.split(separator: "\n").count == 5)
        let passcode = Data(CommandSandbox.passcode.utf8)
        #expect(try sandbox.run("rotate", "--root", "tree", "--passcode-fd", "3", passcodes: passcode).status == 0)
        #expect(try sandbox.run("rotate", "--resume", "--root", place).status == 0)
        for root in ["tree", place] {
            let upgraded = try sandbox.run("upgrade", "--class", "complete", root)
            #expect(upgraded.errors.contains("tree/backup' is left out: it is a backup\n"), "\(upgraded.errors)")
        }
        #expect(try sandbox.shell("find tree/backup -type f | sort | xargs sha256sum").text == before)
        let other = try sandbox.makeOtherKeybag()
        let done = try sandbox.run(
            "restore", place, "--to", "target", "--keybag", other, "--passphrase-fd", "3",
            passcodes: Data(CommandSandbox.passphrase.utf8))
        #expect(done.status == 0 && done.errors == "")
        let read = try sandbox.run("cat", "--keybag", other, sandbox.restored("tree/complete", in: "target"))
        #expect(read.text == "complete\n")
    }

    @Test("A damaged file is reported and the others are restored; a dry run says so before")
    func damaged() throws {
        try tree()
        try sandbox.makeBackup()
        #expect(try sandbox.run("backup", "--to", "backup", "tree").status == 0)
        let copy = try sandbox.restored("tree/none", in: "backup/files")
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: copy))
        try file.seek(toOffset: 390)
        try file.write(contentsOf: Data([0xAA, 0xAA, 0xAA]))
        try file.close()
        let other = try sandbox.makeOtherKeybag()
        for options in [["--dry-run"], []] {
            let done = try sandbox.run(
                ["restore", "backup", "--to", "target", "--keybag", other, "--passphrase-fd", "3", "--json"] + options,
                passcodes: Data(CommandSandbox.passphrase.utf8))
            #expect(done.status == 65 && done.errors.contains("tree/none' is damaged or altered"))
            let summary = try summary(done)
            #expect(summary["copied"] as? Int == 4 && summary["failed"] as? Int == 1)
            let names = (try? FileManager.default.contentsOfDirectory(atPath: sandbox.path("target"))) ?? []
            #expect(names.isEmpty == !options.isEmpty)
        }
        let again = try sandbox.restore(to: "target", keybag: other)
        #expect(again.status == 65, "done again: what is there is left alone")
        let path = try sandbox.restored("tree/complete", in: "target")
        try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
        let taken = try sandbox.restore(to: "target", keybag: other)
        #expect(taken.errors.contains("hint: to replace it: --replace\n"))
    }

    @Test("Usage errors, and paths that do not exist")
    func usage() throws {
        try sandbox.makeBackup()
        #expect(try sandbox.run("backup", "tree").status == 64)
        #expect(try sandbox.run("backup", "--to", "backup").status == 64)
        #expect(try sandbox.run("backup", "--to", "backup", "nothing").status == 66)
        #expect(try sandbox.run("restore", "nothing", "--to", "x").status == 66)
        #expect(try sandbox.run("restore", "backup").status == 64)
        #expect(try sandbox.run("restore", "backup", "--to", "x", "--dry-run", "--replace").status == 64)
        try sandbox.put("x", at: "full/x")
        let mixed = try sandbox.run("backup", "--to", "full", "full")
        #expect(mixed.status == 73)
        try sandbox.put("plain", at: "plain")
        let plain = try sandbox.run("backup", "--to", "backup", "plain")
        #expect(plain.status == 65 && plain.errors.contains("'\(sandbox.root)"))
    }
}

@Suite("Secrets that are damaged, and backup")
struct BackupOfDamagedSecretsTests {
    @Test("A secret that does not open is named with status 65, and its copy stays")
    func damagedSecret() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        let name = ["--service", "imap", "--account", "kim"]
        #expect(try sandbox.run(["secret", "add"] + name, input: Data("good".utf8)).status == 0)
        try FileManager.default.createDirectory(atPath: sandbox.path("tree"), withIntermediateDirectories: false)
        try sandbox.protectedFile("tree/f")
        try sandbox.makeBackup()
        #expect(try sandbox.run("backup", "--to", "backup", "tree").status == 0)
        let script = """
            import sqlite3
            with sqlite3.connect('keybag/secrets/secrets.sqlite') as store:
                store.execute('UPDATE secrets SET value = zeroblob(length(value))')
            """
        #expect(try sandbox.shell("exec python3 -c \"$0\"", [script]).status == 0)
        let done = try sandbox.run("backup", "--to", "backup", "tree")
        #expect(done.status == 65 && done.errors.contains("'imap' 'kim'"), "\(done.errors)")
        let other = try sandbox.makeOtherKeybag()
        let restored = try sandbox.restore(to: "target", keybag: other)
        #expect(restored.status == 0, "\(restored.errors)")
        let read = try sandbox.run(["secret", "get", "--keybag", other] + name)
        #expect(read.text == "good\n" || read.text == "good", "\(read.errors)")
    }

    @Test(
        "A lost store removes no secret from a backup and prints a warning; --delete removes deleted secrets"
    )
    func lostStore() throws {
        let sandbox = try CommandSandbox()
        try sandbox.unlock()
        func add(_ service: String) throws {
            let words = ["secret", "add", "--service", service, "--account", "kim"]
            #expect(try sandbox.run(words, input: Data("good".utf8)).status == 0)
        }
        for service in ["imap", "smtp"] { try add(service) }
        try FileManager.default.createDirectory(atPath: sandbox.path("tree"), withIntermediateDirectories: false)
        try sandbox.makeBackup()
        func backUp(_ options: String...) throws -> Finished {
            try sandbox.run(["backup", "--to", "backup", "tree"] + options)
        }
        func copies() throws -> String {
            let script =
                "import sqlite3; print(*sorted(row[0] for row in sqlite3.connect('backup/secrets.sqlite')"
                + ".execute('SELECT service FROM secrets')))"
            return try sandbox.shell("exec python3 -c \"$0\"", [script]).text
        }
        #expect(try backUp().errors == "")
        #expect(try copies() == "imap smtp\n")
        for lost in ["secrets/secrets.sqlite*", "secrets"] {
            #expect(try sandbox.shell("rm -r keybag/\(lost)").status == 0)
            for options in [[], ["--delete"]] {
                let done = try sandbox.run(["backup", "--to", "backup", "tree"] + options)
                #expect(done.status == 0)
                #expect(done.errors.contains("those in the backup stay"), "\(done.errors)")
                #expect(try copies() == "imap smtp\n")
            }
        }
        try add("new")
        #expect(try backUp().errors == "")
        #expect(try copies() == "imap new smtp\n")
        #expect(try backUp("--delete").errors == "")
        #expect(try copies() == "new\n")
    }
}
