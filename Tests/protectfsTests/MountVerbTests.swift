import Foundation
import Testing

/// Verbs on files where a mount shows their plaintext: they work on the stored files.
@Suite("mount: verbs on its paths", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountVerbTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try MountBed() }

    /// Whether the mount is over the directory or beside it: where the plaintext is.
    private static let places = ["d", "point"]

    private func mount(_ place: String, _ options: String...) throws {
        let words = place == "d" ? ["d"] : ["d", "point"]
        let done = try sandbox.run(["mount", "--read-write"] + options + words)
        try #require(done.status == 0, "\(done.errors)")
    }

    @discardableResult
    private func run(_ words: String..., at location: SourceLocation = #_sourceLocation) throws -> Finished {
        let done = try sandbox.run(words)
        #expect(done.status == 0, "\(words): \(done.errors)", sourceLocation: location)
        return done
    }

    /// The stored bytes of a file of `d`, behind the mount.
    private func stored(_ name: String) throws -> Data {
        let unmounted = try sandbox.shell("fusermount3 -u d 2>/dev/null || fusermount3 -u point")
        #expect(unmounted.status == 0, "\(unmounted.errors)")
        return try sandbox.stored("d/" + name)
    }

    private func isProtected(_ bytes: Data) -> Bool { bytes.starts(with: [0x89, 0x50, 0x46, 0x53]) }

    @Test(
        "protect, upgrade and write encrypt once, whatever the path, and say the path that was given", arguments: places
    )
    func converting(_ place: String) throws {
        try mount(place)
        try run("protect", "\(place)/plain")
        #expect(try sandbox.shell("cat \(place)/plain").text == "plain\n")
        _ = try sandbox.shell("echo two >\(place)/first-unlock.txt; cp \(place)/plain \(place)/sub/copy")
        let upgraded = try run("upgrade", "--class", "complete", "--json", place)
        #expect(
            upgraded.text.contains("\"\(place)/complete\"") || !upgraded.text.contains("/proc/"), "\(upgraded.text)")
        #expect(
            try sandbox.shell("cat \(place)/plain \(place)/first-unlock \(place)/sub/copy").text == "plain\nc\nplain\n")
        #expect(try sandbox.run(["write", "--class", "none", "\(place)/written"], input: Data("w".utf8)).status == 0)
        #expect(try sandbox.shell("cat \(place)/written").text == "w")
        let again = try sandbox.run("protect", "\(place)/plain")
        #expect(again.errors.contains("'\(place)/plain'") || again.status == 0, "\(again.errors)")
        let bytes = try stored("plain")
        #expect(isProtected(bytes))
        #expect(try sandbox.run("cat", "d/plain").text == "plain\n")
        #expect(try sandbox.run("cat", "d/written").text == "w")
    }

    @Test("class, cat, ls, explain, verify, repair and run look at the stored file", arguments: places)
    func looking(_ place: String) throws {
        try mount(place)
        #expect(try run("class", "\(place)/none").text == "none\n")
        try run("class", "\(place)/none", "first-unlock")
        #expect(
            try run("class", "\(place)/none", "\(place)/complete").text
                == "first-unlock\t\(place)/none\ncomplete\t\(place)/complete\n")
        #expect(try run("cat", "\(place)/first-unlock", "\(place)/link").text.hasPrefix("c\n"))
        let list = try run("ls", place).text
        #expect(list.contains("complete") && list.contains("\(place)/complete\n"), "\(list)")
        #expect(try run("explain", "\(place)/complete").text.hasPrefix("\(place)/complete: protected, class complete"))
        #expect(try run("verify", "--recursive", "--json", place).text.contains("\"\(place)/sub/unless-open\""))
        #expect(try run("verify", "\(place)/complete", "\(place)/sub/unless-open").errors == "")
        try run("repair", place)
        #expect(try run("run", "\(place)/first-unlock", "--", "cat", "{}").text == "c\n")
        try run("unprotect", "\(place)/first-unlock")
        #expect(try stored("first-unlock") == Data("c\n".utf8))
    }

    @Test("From within the mount, by relative paths, links and names that do not exist yet")
    func relative() throws {
        try mount("d")
        let done = try bed.script(
            """
            print(verb('class', 'complete').stdout, end='')
            print(verb('class', 'link').stdout, end='')
            print(verb('class', 'sub/../none', './first-unlock').stdout, end='')
            made = subprocess.run([program, 'write', '--class', 'none', 'sub/made'], input=b'x')
            print(made.returncode, open('sub/made').read(), verb('ls').stdout.count('/proc/'))
            missing = verb('cat', 'nothing')
            print(missing.returncode, missing.stderr, end='')
            os.symlink(os.getcwd() + '/complete', 'absolute')
            print(verb('class', 'absolute').stdout, end='')
            """, in: "d")
        #expect(
            done.text == """
                complete
                complete
                none\tsub/../none
                first-unlock\t./first-unlock
                0 x 0
                66 protectfs: error: 'nothing': no such file or directory (open)
                complete

                """, "\(done.errors)")
    }

    @Test("A tree is walked through a mount over a directory in it: rotate, verify and protect miss no file")
    func trees() throws {
        _ = try sandbox.shell("mkdir tree && mv d tree/d && ln -s tree/d d && echo other >tree/other")
        let mounted = try sandbox.run("mount", "--read-write", "tree/d")
        try #require(mounted.status == 0, "\(mounted.errors)")
        defer { _ = try? sandbox.shell("fusermount3 -u -z tree/d") }
        try run("protect", "--recursive", "--yes", "tree/d")
        try run("protect", "tree/other")
        let verified = try run("verify", "--recursive", "--json", "tree")
        #expect(verified.text.contains("\"tree/d/sub/unless-open\""), "\(verified.text)")
        #expect(!verified.errors.contains("another file system"), "\(verified.errors)")
        let rotated = try sandbox.run(
            ["rotate", "--root", "tree", "--passcode-fd", "0", "--json"],
            input: Data(CommandSandbox.passcode.utf8))
        #expect(rotated.status == 0, "\(rotated.errors)")
        #expect(rotated.text.contains("\"rewrapped\": 6"), "\(rotated.text)")
        #expect(try sandbox.shell("cat tree/d/sub/unless-open tree/d/first-unlock").text == "b\nc\n")
    }

    @Test("A backup of a mounted directory has the stored files", arguments: places)
    func backup(_ place: String) throws {
        try mount(place)
        let done = try sandbox.run(
            ["backup", "--to", "copies", "--passphrase-fd", "0", place],
            input: Data("a long passphrase for tests\n".utf8))
        #expect(done.status == 0, "\(done.errors)")
        let found = try sandbox.shell("find copies/files -name complete -size -200k | head -1")
        let copy = found.text.split(separator: "\n").first.map(String.init) ?? ""
        #expect(copy.hasSuffix("/d/complete"), "\(found.text)")
        #expect(try sandbox.shell("head -c 4 '\(copy)'").output.elementsEqual([0x89, 0x50, 0x46, 0x53]))
    }

    @Test("A class change that was killed in a mounted directory is finished by the next lock")
    func unfinishedChange() throws {
        try mount("d")
        let done = try bed.script(
            """
            status = os.stat('first-unlock')
            # As a killed process leaves it: by the name that the mount shows, and no number of the mount's.
            os.makedirs(os.environ['PROTECTFS_KEYBAG'] + '/changing', exist_ok=True)
            note = os.environ['PROTECTFS_KEYBAG'] + '/changing/1.1'
            with open(note, 'w') as file: file.write('%d %d %s' % (status.st_dev, status.st_ino, os.getcwd() + '/first-unlock'))
            lock = verb('lock')
            print(lock.returncode, os.path.exists(note), lock.stderr.count('first-unlock\\''))
            """, in: "d")
        #expect(done.text == "0 False 0\n", "\(done.errors)")
    }
}
