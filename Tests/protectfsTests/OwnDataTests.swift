import Foundation
import Testing

/// What protectfs itself needs is neither encrypted nor decrypted by commands that take whole trees.
@Suite("protectfs's own data in a tree")
struct OwnDataTests {
    private let sandbox: CommandSandbox

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    @Test("upgrade and protect leave a keybag and its export alone, wherever they are and whatever they are called")
    func notProtected() throws {
        _ = try sandbox.makeRecoveryCode()
        try sandbox.put("text", at: "tree/file")
        let done = try sandbox.shell(
            """
            mkdir tree/copy && cd "$PROTECTFS_KEYBAG" && cp keybag.? attempts transition "$OLDPWD/tree/copy" && cd "$OLDPWD"
            cp "$PROTECTFS_KEYBAG"/keybag.0 tree/renamed
            "$PROTECTFS" recovery export tree/export
            find tree -type f ! -name file | sort | xargs sha256sum >before
            "$PROTECTFS" upgrade --class complete tree; echo $?
            "$PROTECTFS" protect --yes -r --class complete tree; echo $?
            for name in export renamed copy/keybag.1; do "$PROTECTFS" protect --class complete tree/$name; echo $?; done
            find tree -type f ! -name file | sort | xargs sha256sum | cmp - before && "$PROTECTFS" class tree/file
            """)
        #expect(done.text == "0\n0\n77\n77\n77\ncomplete\n", "\(done.errors)")
        #expect(done.errors.contains("tree/copy' is left out: it is a keybag\n"), "\(done.errors)")
        #expect(done.errors.contains("tree/export' is left out: protectfs itself needs it\n"), "\(done.errors)")
        #expect(done.errors.contains("'tree/renamed' stays as it is: without it nobody could unlock"))
    }

    @Test("write puts no file in the place of a keybag's")
    func notReplaced() throws {
        let done = try sandbox.shell(
            """
            cd "$PROTECTFS_KEYBAG"
            sha256sum keybag.? attempts transition >"$OLDPWD/before"
            for name in keybag.0 keybag.1 attempts transition; do echo text | "$PROTECTFS" write $name; echo $?; done
            sha256sum --quiet -c "$OLDPWD/before"
            """)
        #expect(done.text == "77\n77\n77\n77\n", "\(done.errors)")
        #expect(done.errors.contains("'keybag.0' stays as it is: without it nobody could unlock"), "\(done.errors)")
    }

    @Test("A device key that lies where XDG_STATE_HOME said it once is left alone")
    func deviceKey() throws {
        defer { sandbox.evictKeys(of: sandbox.path("kb")) }
        let done = try sandbox.shell(
            """
            export XDG_STATE_HOME="$PWD/tree/state" PROTECTFS_KEYBAG="$PWD/kb"
            printf secret | "$PROTECTFS" init --passcode-fd 0
            unset XDG_STATE_HOME; export HOME="$PWD/home"; mkdir -p home
            printf secret | "$PROTECTFS" unlock --passcode-fd 0
            ln tree/state/protectfs/device-key tree/other-name
            "$PROTECTFS" upgrade --class complete tree; echo $?
            "$PROTECTFS" lock; printf secret | "$PROTECTFS" unlock --passcode-fd 0; echo $?; "$PROTECTFS" lock
            """)
        #expect(done.text == "0\n0\n", "\(done.errors)")
        #expect(done.errors.contains("device-key' is left out: protectfs itself needs it\n"), "\(done.errors)")
    }

    @Test("unprotect -r leaves keybags and backups as they are, and the key of the downloads is not decrypted")
    func notDecrypted() throws {
        #expect(try sandbox.shell("mkdir -p tree/inside").status == 0)
        try sandbox.protectedFile("tree/file")
        try sandbox.makeBackup()
        #expect(try sandbox.run("backup", "--to", "backup", "tree").status == 0)
        let done = try sandbox.shell(
            """
            mv backup tree/backup
            find tree/backup -type f | sort | xargs sha256sum >before
            "$PROTECTFS" unprotect -r tree; echo $?
            find tree/backup -type f | sort | xargs sha256sum | cmp - before && cat tree/file
            mkdir -m 700 -p "$PROTECTFS_KEYBAG/downloads"
            echo key | "$PROTECTFS" write "$PROTECTFS_KEYBAG/downloads/key"
            for words in "-r $PROTECTFS_KEYBAG" "$PROTECTFS_KEYBAG/downloads/key" "-r $PROTECTFS_KEYBAG/downloads"; do
                "$PROTECTFS" unprotect $words; echo $?
            done
            "$PROTECTFS" class "$PROTECTFS_KEYBAG/downloads/key"
            """)
        #expect(done.text == "0\ntext\n0\n77\n77\ncomplete\n", "\(done.errors)")
        #expect(done.errors.contains("tree/backup' is a backup and is left out"), "\(done.errors)")
        #expect(done.errors.contains("is a keybag and is left out"), "\(done.errors)")
    }

    @Test("A backup's keybag that somebody has planted keeps no file from a rotation")
    func plantedKeybag() throws {
        #expect(try sandbox.shell("mkdir -p tree/inside").status == 0)
        try sandbox.protectedFile("tree/file")
        try sandbox.protectedFile("tree/inside/file")
        try sandbox.makeBackup()
        let done = try sandbox.shell("cp backup/keybag tree/keybag; cp backup/keybag tree/inside/keybag")
        #expect(done.status == 0, "\(done.errors)")
        let passcode = Data(CommandSandbox.passcode.utf8)
        let rotated = try sandbox.run("rotate", "--root", "tree", "--passcode-fd", "3", passcodes: passcode)
        #expect(rotated.status == 0, "\(rotated.errors)")
        let forgotten = try sandbox.run(
            "rotate", "--forget", "--yes", "--root", "tree", "--passcode-fd", "3", passcodes: passcode)
        #expect(forgotten.status == 0, "\(forgotten.errors)")
        for name in ["tree/file", "tree/inside/file"] { #expect(try sandbox.run("cat", name).text == "text\n") }
    }

    @Test("Files that only look like the copies of a backup are not lost with the retired keys")
    func lookalike() throws {
        #expect(try sandbox.shell("mkdir -p tree/files tree/earlier").status == 0)
        try sandbox.protectedFile("tree/files/file")
        try sandbox.protectedFile("tree/earlier/file")
        try sandbox.makeBackup()
        #expect(try sandbox.shell("cp backup/keybag tree/keybag").status == 0)
        let passcode = Data(CommandSandbox.passcode.utf8)
        let rotated = try sandbox.run("rotate", "--root", "tree", "--passcode-fd", "3", passcodes: passcode)
        #expect(rotated.status == 0, "\(rotated.errors)")
        let forget = ["rotate", "--forget", "--yes", "--root", "tree", "--passcode-fd", "3"]
        let refused = try sandbox.run(forget, passcodes: passcode)
        #expect(refused.status == 77, "\(refused.errors)")
        #expect(refused.errors.contains("'tree/files' looks like the copies of a backup"), "\(refused.errors)")
        for name in ["tree/files/file", "tree/earlier/file"] { #expect(try sandbox.run("cat", name).text == "text\n") }
        // As the hint says.
        #expect(try sandbox.shell("rm tree/keybag && \"$PROTECTFS\" rotate --resume --root tree").status == 0)
        let forgotten = try sandbox.run(forget, passcodes: passcode)
        #expect(forgotten.status == 0, "\(forgotten.errors)")
        for name in ["tree/files/file", "tree/earlier/file"] { #expect(try sandbox.run("cat", name).text == "text\n") }
    }

    @Test("A directory that is no backup keeps its mode when one is to be made there, and is refused")
    func foreignDirectory() throws {
        let done = try sandbox.shell(
            """
            mkdir -m 755 documents; echo text >documents/text
            printf 'correct horse battery staple' | "$PROTECTFS" backup --to documents --passphrase-fd 0 documents; echo $?
            stat -c %a documents; ls documents
            """)
        #expect(done.text == "73\n755\ntext\n", "\(done.errors)")
    }
}
