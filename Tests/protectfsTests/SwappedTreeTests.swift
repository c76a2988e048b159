import Foundation
import Testing

@Suite("Trees in which somebody else swaps directories")
struct SwappedTreeTests {
    private let sandbox: CommandSandbox
    init() throws { sandbox = try CommandSandbox() }

    @Test("unprotect --recursive turns no file outside of the tree into plaintext")
    func unprotect() throws {
        try sandbox.unlock()
        try sandbox.put("x", at: "tree/sub/zz")
        try sandbox.put("x", at: "outside/keep")
        try sandbox.protectedFile("outside/zz", Data("secret\n".utf8))
        let script = """
            import ctypes, os, subprocess
            libc = ctypes.CDLL(None)
            for number in range(600): open(f'tree/sub/a{number}', 'w').close()
            os.symlink(os.path.abspath('outside'), 'tree/link')
            watch = libc.inotify_init1(0)
            libc.inotify_add_watch(watch, b'tree/sub', 0x20)  # IN_OPEN
            command = subprocess.Popen([os.environ['PROTECTFS'], 'unprotect', '--recursive', 'tree'])
            while b'a10' not in os.read(watch, 65536): pass
            assert libc.renameat2(-100, b'tree/sub', -100, b'tree/link', 2) == 0
            command.wait()
            """
        let done = try sandbox.shell("exec python3 -c \"$0\"", [script])
        #expect(done.status == 0, "\(done.errors)")
        #expect(!(try sandbox.stored("outside/zz")).contains(Data("secret".utf8)))
        #expect(try sandbox.run("cat", "outside/zz").text == "secret\n")
    }

    @Test("backup --to LINK goes on in the directory that the link led to at first, secrets included")
    func backupThroughLink() throws {
        try sandbox.unlock()
        let name = ["--service", "imap", "--account", "kim"]
        #expect(try sandbox.run(["secret", "add"] + name, input: Data("good".utf8)).status == 0)
        try sandbox.protectedFile("tree/f")
        for number in 0..<200 {
            try FileManager.default.copyItem(atPath: sandbox.path("tree/f"), toPath: sandbox.path("tree/a\(number)"))
        }
        try sandbox.makeBackup()
        let script = """
            import ctypes, os, subprocess
            libc = ctypes.CDLL(None)
            os.mkdir('elsewhere', 0o700)
            os.symlink('backup', 'link')
            os.symlink('elsewhere', 'other')
            watch = libc.inotify_init1(0)
            libc.inotify_add_watch(watch, b'tree', 0x20)  # IN_OPEN
            command = subprocess.Popen([os.environ['PROTECTFS'], 'backup', '--to', 'link', 'tree'])
            while b'a10' not in os.read(watch, 65536): pass
            assert libc.renameat2(-100, b'link', -100, b'other', 2) == 0
            assert command.wait() == 0
            print(sorted(os.listdir('elsewhere')), sorted(os.listdir('backup')))
            """
        let done = try sandbox.shell("exec python3 -c \"$0\"", [script])
        #expect(done.text == "[] ['files', 'keybag', 'secrets.sqlite']\n", "\(done.errors)")
    }

    @Test(
        "A keybag is not made where another user could exchange its files",
        .enabled(if: geteuid() == 0, "it takes root to give a directory away"))
    func foreignParent() throws {
        let fresh = try CommandSandbox(makesKeybag: false)
        try fresh.put("x", at: "theirs/file")
        #expect(chown(fresh.path("theirs"), 23456, 23456) == 0)
        for place in ["theirs/keybag", "theirs/below/keybag"] {
            let done = try fresh.run(
                ["init", "--no-recovery-code", "--keybag", place, "--passcode-fd", "3"],
                passcodes: Data("four random words here".utf8))
            #expect(done.status == 77, "\(done.errors)")
            #expect(done.errors.contains("belongs to uid 23456"), "\(done.errors)")
            #expect(!FileManager.default.fileExists(atPath: fresh.path(place)))
        }
    }
}
