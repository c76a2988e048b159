import DataProtection
import Foundation
import SystemPackage
import Testing

/// What happens to stored files while a mount shows them.
@Suite("mount: changes to the stored files", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountStoredTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws {
        bed = try MountBed()
        try bed.store(MountBed.contents, at: "complete")
    }

    @Test(
        "A file is replaced below while a program reads it: bytes written to its name at once are not lost",
        arguments: [
            "\"$PROTECTFS\" class --rekey point/f", "\"$PROTECTFS\" unprotect point/f",
            "echo other | \"$PROTECTFS\" write point/f", "mv d/other d/f",
        ])
    func replaced(change: String) throws {
        try sandbox.protectedFile("d/f", Data("original\n".utf8), "first-unlock")
        try sandbox.protectedFile("d/other", Data("another\n".utf8), "first-unlock")
        try bed.mount("--read-write")
        let done = try sandbox.shell(
            """
            exec 9<point/f; cat <&9
            \(change); echo $?
            echo new >point/f; echo $?
            chmod 600 point/f; setfattr -n user.mark -v there point/f
            cat point/f; sleep 1.5; cat point/f
            "$PROTECTFS" cat d/f 2>/dev/null || cat d/f
            stat -c %a d/f; getfattr --only-values -n user.mark d/f
            """)
        #expect(done.text == "original\n0\n0\nnew\nnew\nnew\n600\nthere", "\(done.errors)")
    }

    @Test("A file that is replaced below and stays open is read as it was, and has its attributes")
    func stillOpen() throws {
        try sandbox.protectedFile("d/f", Data("original\n".utf8), "first-unlock")
        try bed.mount("--read-write")
        let done = try bed.script(
            """
            file = os.open('f', os.O_RDONLY)
            run('class', '--rekey', '../d/f')
            print(os.pread(file, 99, 0), os.fstat(file).st_size)
            time.sleep(1.2)
            print(os.pread(file, 99, 0), os.fstat(file).st_size, open('f').read())
            """)
        #expect(done.text == "b'original\\n' 9\nb'original\\n' 9 original\n\n", "\(done.errors)")
    }

    @Test("A link in a mount, or that leads into one, is replaced or refused as everywhere", arguments: ["point", "d"])
    func links(directory: String) throws {
        if directory == "d" { try bed.mountInPlace("--read-write") } else { try bed.mount("--read-write") }
        let done = try sandbox.shell(
            """
            ln -s "$PWD/\(directory)/first-unlock" outside
            for link in \(directory)/link outside; do
                for verb in "protect --yes" unprotect "class --rekey"; do "$PROTECTFS" $verb $link 2>/dev/null; echo $?; done
                echo new | "$PROTECTFS" write $link; echo $?
                "$PROTECTFS" cat $link
            done
            test -h \(directory)/link || test -h outside || echo replaced
            "$PROTECTFS" cat \(directory)/complete | cmp - complete && "$PROTECTFS" cat \(directory)/first-unlock
            echo more | "$PROTECTFS" write --append \(directory)/none; "$PROTECTFS" cat \(directory)/none
            """)
        #expect(done.text == "77\n77\n77\n0\nnew\n77\n77\n77\n0\nnew\nreplaced\nc\nd\nmore\n", "\(done.errors)")
    }

    @Test(
        "A backup into a mount, also of what it shows, ends and can be restored, also into the mount",
        arguments: ["point", "d"])
    func backup(directory: String) throws {
        try sandbox.put(CommandSandbox.passphrase, at: "passphrase")
        if directory == "d" { try bed.mountInPlace("--read-write") } else { try bed.mount("--read-write") }
        let done = try sandbox.shell(
            """
            "$PROTECTFS" backup --to \(directory)/backup --passphrase-fd 3 \(directory) 3<passphrase; echo $?
            "$PROTECTFS" restore \(directory)/backup --to \(directory)/back --passphrase-fd 3 3<passphrase; echo $?
            cmp "\(directory)/back$PWD/d/complete" complete; echo $?
            fusermount3 -u \(directory)
            "$PROTECTFS" restore d/backup --to out --passphrase-fd 3 3<passphrase; echo $?
            "$PROTECTFS" cat "out$PWD/d/complete" | cmp - complete; echo $?
            """)
        #expect(done.text == "0\n0\n0\n0\n0\n", "\(done.errors)")
    }

    @Test("Exports and RNCryptor files may be named in a mount", arguments: ["point", "d"])
    func exports(directory: String) throws {
        try sandbox.put(CommandSandbox.passphrase, at: "passphrase")
        _ = try sandbox.makeRecoveryCode()
        try sandbox.unlock()
        if directory == "d" { try bed.mountInPlace("--read-write") } else { try bed.mount("--read-write") }
        let done = try sandbox.shell(
            """
            printf value | "$PROTECTFS" secret add --service s --account a; echo $?
            "$PROTECTFS" secret export \(directory)/secrets; echo $?
            "$PROTECTFS" secret import --replace \(directory)/secrets; echo $?
            "$PROTECTFS" class \(directory)/secrets
            "$PROTECTFS" rncryptor seal \(directory)/first-unlock --password-fd 3 3<passphrase 2>/dev/null; echo $?
            "$PROTECTFS" rncryptor open \(directory)/first-unlock.rncryptor -o \(directory)/opened --password-fd 3 3<passphrase; echo $?
            "$PROTECTFS" class \(directory)/opened; cat \(directory)/opened
            "$PROTECTFS" recovery export \(directory)/keybag; echo $?
            "$PROTECTFS" init --keybag \(directory)/new --passcode-fd 3 3<passphrase 2>/dev/null; echo $?; test ! -e d/new
            cmp \(directory)/keybag d/keybag; echo $?
            """)
        #expect(
            done.text == "0\n0\n0\ncomplete\n0\n0\ncomplete\nc\n0\n64\n0\n", "\(done.text) \(done.errors)")
    }

    @Test("One mount after another, with the same device number, in one process: each leads to its own directory")
    func another() throws {
        var places: [FilePath] = []
        try sandbox.put("", at: "e/other")
        for directory in ["d", "e"] {
            try sandbox.protectedFile("\(directory)/f", Data("\(directory)\n".utf8), "first-unlock")
            #expect(try sandbox.run("mount", directory).status == 0)
            places.append(try StoredPlace.of(FilePath(sandbox.path("\(directory)/f"))))
            #expect(try sandbox.run("unmount", directory).status == 0)
        }
        #expect(try places.map { try $0.resolvedName().removingLastComponent().lastComponent } == ["d", "e"])
    }
}
