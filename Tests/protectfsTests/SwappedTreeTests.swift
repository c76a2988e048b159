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

    /// Runs a verb, and exchanges `tree/sub` for a link to `outside` while it is at work there. `tree/link` is the directory then.
    private func swapping(_ words: String...) throws -> Finished {
        let script = """
            import ctypes, os, subprocess, sys
            libc = ctypes.CDLL(None)
            for number in range(600): open(f'tree/sub/a{number}', 'w').close()
            os.symlink(os.path.abspath('outside'), 'tree/link')
            watch = libc.inotify_init1(0)
            libc.inotify_add_watch(watch, b'tree/sub', 0x20)  # IN_OPEN
            command = subprocess.Popen([os.environ['PROTECTFS']] + sys.argv[1:])
            while b'a10' not in os.read(watch, 65536): pass
            assert libc.renameat2(-100, b'tree/sub', -100, b'tree/link', 2) == 0
            sys.exit(command.wait())
            """
        return try sandbox.shell("exec python3 -c \"$0\" \"$@\"", [script] + words)
    }

    @Test("ls -R shows no file outside of the tree")
    func list() throws {
        try sandbox.unlock()
        try sandbox.put("x", at: "tree/sub/zz")
        try FileManager.default.createDirectory(atPath: sandbox.path("outside"), withIntermediateDirectories: false)
        try sandbox.protectedFile("outside/zz")
        let done = try swapping("ls", "-R", "tree")
        #expect(done.status == 0, "\(done.errors)")
        let line = try #require(done.text.split(separator: "\n").first { $0.hasSuffix("tree/sub/zz") })
        #expect(line.hasPrefix("- "), "\(line)")
    }

    @Test("verify --recursive opens no file outside of the tree")
    func verify() throws {
        try sandbox.unlock()
        for name in ["tree/sub", "outside"] {
            try FileManager.default.createDirectory(atPath: sandbox.path(name), withIntermediateDirectories: true)
            try sandbox.protectedFile(name + "/zz", Data(repeating: 1, count: 100_000))
        }
        var stored = try sandbox.stored("outside/zz")
        stored[50_000] ^= 1
        try stored.write(to: URL(fileURLWithPath: sandbox.path("outside/zz")))
        let done = try swapping("verify", "--recursive", "tree")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try sandbox.run("verify", "outside/zz").status == 65)
    }

    @Test("repair changes no file outside of the tree")
    func repair() throws {
        try sandbox.unlock()
        let writer = try sandbox.startWriter(of: "tree/sub/zz")
        kill(writer.processIdentifier, SIGKILL)
        writer.waitUntilExit()
        let stored = try sandbox.stored("tree/sub/zz")
        try FileManager.default.createDirectory(atPath: sandbox.path("outside"), withIntermediateDirectories: false)
        try stored.write(to: URL(fileURLWithPath: sandbox.path("outside/zz")))
        let done = try swapping("repair", "tree")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try sandbox.stored("outside/zz") == stored)
        #expect(try sandbox.stored("tree/link/zz") != stored)
    }

    @Test("rotate wraps no file outside of the tree anew")
    func rotate() throws {
        try sandbox.unlock()
        for name in ["tree/sub", "outside", "empty"] {
            try FileManager.default.createDirectory(atPath: sandbox.path(name), withIntermediateDirectories: true)
            if name != "empty" { try sandbox.protectedFile(name + "/zz") }
        }
        let passcode = Data(CommandSandbox.passcode.utf8)
        let first = try sandbox.run(["rotate", "--root", "empty", "--passcode-fd", "3"], passcodes: passcode)
        #expect(first.status == 0, "\(first.errors)")
        let stored = ["tree/sub/zz", "outside/zz"]
        let before = try stored.map(sandbox.stored)
        let done = try swapping("rotate", "--resume", "--root", "tree")
        #expect(done.status == 0, "\(done.errors)")
        #expect(try sandbox.stored("outside/zz") == before[1])
        #expect(try sandbox.stored("tree/link/zz") != before[0])
    }

    @Test("backup --to LINK goes on in the directory that the link led to at first, secrets included")
    func backupThroughLink() throws {
        try sandbox.unlock()
        let name = ["--service", "imap", "--account", "kim"]
        #expect(try sandbox.run(["secret", "add"] + name, input: Data("good".utf8)).status == 0)
        try FileManager.default.createDirectory(atPath: sandbox.path("tree"), withIntermediateDirectories: false)
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
