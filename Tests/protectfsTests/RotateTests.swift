import Foundation
import Testing

@Suite("rotate, and class --rekey")
struct RotateTests {
    private let sandbox: CommandSandbox
    private static let passcode = Data(CommandSandbox.passcode.utf8)

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    /// Four protected files in a tree, a plain one, and a link.
    private func tree() throws {
        try sandbox.put("plain", at: "tree/plain")
        for name in ["complete", "unless-open", "first-unlock", "none"] {
            try sandbox.protectedFile("tree/\(name)", Data("\(name)\n".utf8), name)
        }
        symlink("complete", sandbox.path("tree/link"))
    }

    private func rotate(_ options: String...) throws -> Finished {
        let source = options.contains("--resume") ? [] : ["--passcode-fd", "3"]
        return try sandbox.run(["rotate", "--root", "tree"] + options + source, passcodes: Self.passcode)
    }

    /// The summary of a `--json`.
    private func summary(_ done: Finished) throws -> [String: Any] {
        let document = try #require(try done.json() as? [String: Any])
        return try #require(document["summary"] as? [String: Any])
    }

    /// The generations that `explain --stored` shows.
    private func generations() throws -> Set<Int> {
        let text = try sandbox.shell(
            "for f in complete unless-open first-unlock none; do \"$PROTECTFS\" explain --stored tree/$f; done"
        ).text
        return Set(text.matches(of: /class key generation (\d+)/).compactMap { Int($0.1) })
    }

    private func copyKeybag() throws -> String {
        let saved = sandbox.path("saved")
        try FileManager.default.copyItem(atPath: sandbox.keybagDirectory, toPath: saved)
        return saved
    }

    @Test("Silent, and afterwards every file is under the new keys; a second pass finds nothing to do")
    func rotates() throws {
        try tree()
        let done = try rotate()
        #expect(done.status == 0 && done.text == "" && done.errors == "")
        #expect(try generations() == [2])
        let again = try summary(try rotate("--resume", "--json"))
        #expect(again["rewrapped"] as? Int == 0 && again["current"] as? Int == 4)
        #expect(again["generation"] as? Int == 2 && again["retiredGenerations"] as? [Int] == [1])
        #expect(try sandbox.run("cat", "tree/complete").text == "complete\n")
        #expect(try sandbox.run("cat", "tree/plain").status == 65)
    }

    @Test("The key of the list of downloads is rotated wherever the roots are, and once")
    func reachesTheKeybagsOwnFile() throws {
        try tree()
        try sandbox.protectedFile("key", Data("0123456789abcdef0123456789abcdef".utf8), "first-unlock")
        let directory = "\(sandbox.keybagDirectory)/downloads"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        try FileManager.default.moveItem(atPath: sandbox.path("key"), toPath: "\(directory)/key")
        #expect(try summary(try rotate("--json"))["rewrapped"] as? Int == 5)
        let again = try summary(
            try sandbox.run(["rotate", "--resume", "--json", "--root", "tree", "--root", sandbox.keybagDirectory]))
        #expect(again["current"] as? Int == 5)
        // Not reached by a walk through anything but itself.
        _ = try rotate()
        #expect(try sandbox.run("cat", "\(directory)/key").text == "0123456789abcdef0123456789abcdef")
        #expect(try rotate("--forget", "--yes").status == 0)
        #expect(try sandbox.run("cat", "\(directory)/key").status == 0)
    }

    @Test("Forgetting is silent, and the files open as before; a second time there is nothing to forget")
    func forgets() throws {
        try tree()
        #expect(try rotate().status == 0)
        let line = "retired class keys: generation 1, until protectfs rotate --forget\n"
        #expect(try sandbox.run("status").text.contains(line))
        let done = try rotate("--forget", "--yes")
        #expect(done.status == 0 && done.text + done.errors == "")
        #expect(try !sandbox.run("status").text.contains("retired"))
        for name in ["complete", "unless-open", "first-unlock", "none"] {
            #expect(try sandbox.run("cat", "tree/\(name)").text == "\(name)\n")
        }
        let nothing = try rotate("--forget", "--yes")
        #expect(nothing.status == 0 && nothing.errors == "protectfs: note: there are no retired class keys\n")
    }

    /// The device key is there too: it is the same one.
    @Test(
        "A saved keybag and its passcode open none of the files, before the old keys are forgotten and afterwards",
        arguments: [false, true])
    func savedKeybag(isForgotten: Bool) throws {
        try tree()
        let saved = try copyKeybag()
        #expect(try rotate().status == 0)
        if isForgotten { #expect(try rotate("--forget", "--yes").status == 0) }

        sandbox.evictKeys(of: sandbox.keybagDirectory)
        let unlocked = try sandbox.run(
            "unlock", "--keybag", saved, "--passcode-fd", "3", passcodes: Self.passcode)
        #expect(unlocked.status == 0)
        for name in ["complete", "unless-open", "first-unlock", "none"] {
            let stolen = try sandbox.run("cat", "--keybag", saved, "tree/\(name)")
            #expect(stolen.status == 66 && stolen.text == "")
            #expect(stolen.errors.contains("generation 2, which is newer than its keybag"))
        }
    }

    @Test("A helper that is killed is not called a bug: status 71, and the hint has the command that does the rest")
    func killedHelper() throws {
        try tree()
        let added = try sandbox.run(["secret", "add", "--account", "kim"], input: Data("value".utf8))
        #expect(added.status == 0, "\(added.errors)")
        let done = try sandbox.shell(
            """
            cp "$PROTECTFS" protectfs && printf '#!/bin/sh\\nkill -9 $$\\n' >protectfs-secrets && chmod +x protectfs-secrets
            printf %s "$0" | ./protectfs rotate --root tree --passcode-fd 0
            """, [CommandSandbox.passcode])
        #expect(done.status == 71, "\(done.errors)")
        #expect(done.errors.contains("protectfs-secrets' was ended by signal 9 before it was done"), "\(done.errors)")
        #expect(done.errors.contains("hint: to continue: protectfs rotate --resume --root"), "\(done.errors)")
        #expect(try sandbox.run("rotate", "--resume", "--root", "tree").status == 0)
        #expect(try sandbox.run("secret", "get", "--account", "kim").text == "value\n")
    }

    @Test("Refuses to forget what files still need, unless told to")
    func refuses() throws {
        try tree()
        let elsewhere = sandbox.path("elsewhere")
        try FileManager.default.createDirectory(atPath: elsewhere, withIntermediateDirectories: false)
        #expect(
            try sandbox.run("rotate", "--root", elsewhere, "--passcode-fd", "3", passcodes: Self.passcode).status == 0)
        let refused = try rotate("--forget", "--yes", "--json")
        #expect(refused.status == 77)
        #expect(try summary(refused)["remaining"] as? Int == 4)
        #expect(
            refused.errors.contains(
                "error: 4 files would be lost: still under retired class keys; nothing was forgotten"))
        #expect(refused.errors.contains("first: protectfs rotate --resume --root 'tree'"))
        #expect(try sandbox.run("cat", "tree/complete").status == 0)
        let alone = try sandbox.run("rotate", "--forget", "--root", elsewhere)
        #expect(alone.status == 77 && alone.errors.contains("there is no terminal to confirm it on"))
        #expect(try rotate("--forget", "--yes", "--allow-loss").status == 0)
        #expect(try sandbox.run("cat", "tree/complete").status == 66)
        let lost = try rotate("--resume")
        #expect(lost.status == 66, "\(lost.errors)")
    }

    @Test("Another file system below a root is not looked at, and stands in the way of forgetting unless it is named")
    func otherFileSystem() throws {
        guard try sandbox.shell("unshare --mount true").status == 0 else {
            print("skipped: no mount namespace can be made here")
            return
        }
        try tree()
        let script = """
            set -e
            mkdir tree/disk && mount -t tmpfs none tree/disk && cp tree/complete tree/disk/file
            "$PROTECTFS" rotate --root tree --passcode-fd 3 3<passcode
            "$PROTECTFS" rotate --forget --yes --root tree --passcode-fd 3 3<passcode && exit 1
            "$PROTECTFS" rotate --resume --root tree --root tree/disk
            "$PROTECTFS" rotate --forget --yes --root tree --root tree/disk/ --passcode-fd 3 3<passcode
            "$PROTECTFS" cat tree/disk/file
            """
        try Self.passcode.write(to: URL(fileURLWithPath: sandbox.path("passcode")))
        let done = try sandbox.shell("exec unshare --mount sh -c \"$0\"", [script])
        #expect(done.status == 0 && done.text == "complete\n", "\(done.errors)")
        #expect(done.errors.contains("warning: 'tree/disk' is another file system and is left out\n"))
        let hint = "hint: if there are files of this keybag: protectfs rotate --resume --root 'tree/disk'\n"
        #expect(done.errors.contains(hint))
        #expect(done.errors.contains("error: not every file could be checked, so some may be lost"))
        let warning = "warning: files hidden by the mount at 'tree/disk' are not searched: unmount it first\n"
        #expect(done.errors.components(separatedBy: warning).count == 2, "\(done.errors)")
    }

    @Test(
        "A link that leads to other files of the user is a warning, and --forget deletes nothing until they are searched too"
    )
    func linkedElsewhere() throws {
        try tree()
        try Self.passcode.write(to: URL(fileURLWithPath: sandbox.path("passcode")))
        let done = try sandbox.shell(
            """
            mkdir elsewhere && cp tree/complete elsewhere/file && cp tree/complete alone && echo plain >plain
            ln -s ../elsewhere tree/documents; ln -s ../elsewhere tree/again; ln -s ../alone tree/diary
            ln -s complete tree/inside; ln -s ../plain tree/plain; ln -s nowhere tree/dangling
            "$PROTECTFS" rotate --root tree --passcode-fd 3 3<passcode; echo $?
            "$PROTECTFS" rotate --forget --yes --root tree --passcode-fd 3 3<passcode; echo $?
            "$PROTECTFS" rotate --resume --root tree --root elsewhere --root alone; echo $?
            "$PROTECTFS" rotate --forget --yes --root tree --root elsewhere --root alone --passcode-fd 3 3<passcode; echo $?
            "$PROTECTFS" cat elsewhere/file; "$PROTECTFS" cat alone
            """)
        #expect(done.text == "0\n77\n0\n0\ncomplete\ncomplete\n", "\(done.errors)")
        let root = try #require(sandbox.root.withCString { realpath($0, nil) }.map { String(cString: $0) })
        let lines = done.errors.split(separator: "\n")
        let warnings = lines.filter { $0.hasPrefix("protectfs: warning: ") }
        #expect(Set(warnings).count == 2 && warnings.count == 4, "\(done.errors)")
        #expect(warnings.contains("protectfs: warning: 'tree/diary' is a link to '\(root)/alone' and is not followed"))
        let hint =
            "protectfs: hint: if there are files of this keybag: protectfs rotate --resume --root '\(root)/elsewhere'"
        #expect(lines.contains(Substring(hint)), "\(done.errors)")
        #expect(done.errors.contains("error: not every file could be checked, so some may be lost"))
    }

    @Test(
        "The keys of a keybag are not forgotten while its secrets or downloads cannot be reached",
        arguments: ["secrets", "downloads"])
    func awayStores(store: String) throws {
        try tree()
        try Self.passcode.write(to: URL(fileURLWithPath: sandbox.path("passcode")))
        let done = try sandbox.shell(
            """
            export PROTECTFS_SECRETS="$(dirname "$PROTECTFS")/protectfs-secrets"
            printf value | "$PROTECTFS" secret set --app a --account b || exit 1
            "$PROTECTFS" download add --allow-plain-http http://127.0.0.1:9/file >/dev/null || exit 1
            mkdir disk && mv "$PROTECTFS_KEYBAG/$0" disk/ && ln -s "$PWD/disk/$0" "$PROTECTFS_KEYBAG/$0"
            "$PROTECTFS" secret get --app a --account b
            mv disk away
            "$PROTECTFS" rotate --root tree --passcode-fd 3 3<passcode; echo $(($? != 0))
            "$PROTECTFS" rotate --forget --yes --root tree --passcode-fd 3 3<passcode; echo $(($? != 0))
            mv away disk
            "$PROTECTFS" rotate --resume --root tree; echo $?
            "$PROTECTFS" rotate --forget --yes --root tree --passcode-fd 3 3<passcode; echo $?
            "$PROTECTFS" secret get --app a --account b
            "$PROTECTFS" download list | grep -c file
            """, [store])
        #expect(done.text == "value\n1\n1\n0\n0\nvalue\n1\n", "\(done.errors)")
        #expect(done.errors.contains("/\(store)"), "\(done.errors)")
    }

    @Test(
        "Mounts of ours below a root do not keep --forget from knowing their files, which are stored below the root too",
        .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
    func mounted() throws {
        try tree()
        try Self.passcode.write(to: URL(fileURLWithPath: sandbox.path("passcode")))
        let done = try sandbox.shell(
            """
            mkdir tree/point tree/over tree/store && cp tree/complete tree/over/ && cp tree/complete tree/store/
            "$PROTECTFS" mount tree/store tree/point && "$PROTECTFS" mount tree/over || exit 1
            "$PROTECTFS" rotate --root tree --passcode-fd 3 3<passcode; echo $?
            "$PROTECTFS" rotate --forget --yes --root tree --passcode-fd 3 3<passcode; echo $?
            "$PROTECTFS" unmount tree/point; "$PROTECTFS" unmount tree/over
            "$PROTECTFS" cat tree/store/complete tree/over/complete
            """)
        #expect(done.text == "0\n0\ncomplete\ncomplete\n", "\(done.errors)")
        #expect(done.errors == "")
    }

    @Test("Forgetting looks at every file: one that is damaged stands in its way")
    func damagedFile() throws {
        try tree()
        #expect(try rotate().status == 0)
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: sandbox.path("tree/none")))
        for offset in [UInt64(300), 4396] {
            try file.seek(toOffset: offset)
            try file.write(contentsOf: Data(repeating: 0xAA, count: 50))
        }
        try file.close()
        let refused = try rotate("--forget", "--yes")
        #expect(refused.status == 77)
        #expect(refused.errors.contains("not every file could be checked"))
    }

    @Test("Locked, nothing is changed and nobody is asked; a lock in between leaves the rest")
    func locked() throws {
        try tree()
        try sandbox.run("lock")
        for options in [[], ["--forget", "--yes"]] {
            let done = try sandbox.run(["rotate", "--root", "tree"] + options, passcodes: Self.passcode)
            if options.isEmpty {
                #expect(done.status == 75)
                #expect(done.errors.contains("cannot change the class keys of"))
                #expect(done.errors.contains("hint: unlock first: protectfs unlock\n"))
            } else {
                #expect(done.status == 0, "there is nothing to forget")
            }
        }
        try sandbox.unlock()
        let none = sandbox.path("none")
        try FileManager.default.createDirectory(atPath: none, withIntermediateDirectories: false)
        #expect(try sandbox.run("rotate", "--root", none, "--passcode-fd", "3", passcodes: Self.passcode).status == 0)
        try sandbox.run("lock")
        let rest = try rotate("--resume")
        #expect(rest.status == 75)
        #expect(rest.errors.contains("hint: then continue: protectfs rotate --resume --root 'tree'\n"))
        try sandbox.unlock()
        #expect(try rotate("--resume").status == 0)
        #expect(try generations() == [2])
    }

    @Test("A recovery code is replaced by a new one, which is printed; not where JSON is")
    func recoveryCode() throws {
        try tree()
        let old = try sandbox.makeRecoveryCode()
        #expect(try sandbox.run("recovery", "export", "export").status == 0)
        let refused = try rotate("--json")
        #expect(refused.status == 64 && refused.errors.contains("cannot share standard output"))
        let done = try rotate()
        let new = try #require(done.recoveryCode)
        #expect(done.status == 0 && new != old)
        #expect(done.errors.contains("warning: the last recovery export does not open the rotated files\n"))
        #expect(done.errors.contains("hint: make a new one: protectfs recovery export FILE\n"))
        #expect(try !rotate("--resume").errors.contains("recovery export"))
        #expect(try sandbox.recover(with: old).status == 77)
        #expect(try sandbox.recover(with: new).status == 0)
    }

    @Test("Options that make no sense together, roots that are not there")
    func usage() throws {
        for options in [
            ["--resume", "--forget"], ["--resume", "--passcode-fd", "3"], ["--yes"], ["--allow-loss"], ["--jobs", "0"],
        ] {
            #expect(try sandbox.run(["rotate"] + options).status == 64, "\(options)")
        }
        let before = try sandbox.keybagFiles()
        let missing = try sandbox.run(
            "rotate", "--root", "nothing", "--passcode-fd", "3", passcodes: Self.passcode)
        #expect(missing.status == 66)
        #expect(try sandbox.keybagFiles() == before, "no keys are made before the roots were looked at")
    }

    @Test("class --rekey: another file under the same name, with or without a class")
    func rekey() throws {
        try tree()
        let before = try sandbox.stored("tree/complete")
        #expect(try sandbox.run("class", "--rekey", "tree/complete").status == 0)
        let after = try sandbox.stored("tree/complete")
        #expect(after[24..<40] != before[24..<40], "another file id")
        #expect(try sandbox.run("class", "tree/complete").text == "complete\n")
        #expect(try sandbox.run("cat", "tree/complete").text == "complete\n")
        #expect(try sandbox.run("class", "--rekey", "tree/none", "tree/first-unlock", "complete").status == 0)
        #expect(try sandbox.run("class", "tree/none").text == "complete\n")
        let weaker = try sandbox.run("class", "--rekey", "tree/none", "none")
        #expect(weaker.status == 77 && weaker.errors.contains("--allow-weaker"))
        #expect(try sandbox.run("class", "--rekey", "--allow-weaker", "tree/none", "none").status == 0)
        #expect(try sandbox.run("cat", "tree/none").text == "none\n")
        #expect(try sandbox.run("class", "--rekey", "tree/plain").status == 65)
        #expect(try sandbox.run("class", "--rekey", "tree").status == 77)
    }
}
