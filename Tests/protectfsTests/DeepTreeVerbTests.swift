import Foundation
import Testing

/// Trees deeper than the files that a process may have open, and than PATH_MAX bytes of a path.
@Suite("Verbs and deep trees")
struct DeepTreeVerbTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.protectedFile("protected", Data("deep\n".utf8))
    }

    /// So many directories of one name, one in the other: more than may be open; and 5,000 bytes of a path.
    struct Shape {
        let depth: Int
        let name: String
    }
    private static let shapes = [
        Shape(depth: 300, name: "d"), Shape(depth: 20, name: String(repeating: "n", count: 250)),
    ]

    private func python(_ script: String) throws -> Finished {
        let done = try sandbox.shell("exec python3 -c \"$0\"", [script])
        #expect(done.status == 0, "\(done.errors)")
        return done
    }

    /// Makes `tree/d/d…`, with two files at the bottom: `f`, protected, and `plain`.
    private func makeTree(_ shape: Shape) throws {
        _ = try python(
            """
            import os
            text = open('protected', 'rb').read()
            os.mkdir('tree')
            os.chdir('tree')
            for _ in range(\(shape.depth)):
                os.mkdir('\(shape.name)')
                os.chdir('\(shape.name)')
            open('f', 'wb').write(text)
            open('plain', 'wb').write(b'plain')
            """)
    }

    /// Copies a file from the bottom of a tree to the sandbox.
    private func fetch(_ name: String, from tree: String, _ shape: Shape, as copy: String) throws {
        _ = try python(
            """
            import os
            top = os.getcwd()
            os.chdir('\(tree)')
            for _ in range(\(shape.depth)): os.chdir('\(shape.name)')
            text = open('\(name)', 'rb').read()
            os.chdir(top)
            open('\(copy)', 'wb').write(text)
            """)
    }

    /// Runs a command that may have 256 files open.
    private func run(_ words: String..., passphrase: String = "") throws -> Finished {
        let file = sandbox.path(".passphrase")
        try Data(passphrase.utf8).write(to: URL(fileURLWithPath: file))
        return try sandbox.shell("ulimit -n 256; exec \"$PROTECTFS\" \"$@\" 3<\"$0\"", [file] + words)
    }

    /// Removes trees that are too deep for others.
    private func remove(_ names: String...) throws {
        #expect(try sandbox.shell("chmod -R u+rwx \"$@\"; rm -rf \"$@\"", ["sh"] + names).status == 0)
    }

    @Test("A backup and a restore of a deep tree bring its files back", arguments: shapes)
    func backup(_ shape: Shape) throws {
        try makeTree(shape)
        try sandbox.makeBackup()
        let done = try run("backup", "--to", "backup", "tree")
        #expect(done.status == 0, "\(done.errors)")
        let other = try sandbox.makeOtherKeybag()
        let restored = try run(
            "restore", "backup", "--to", "target", "--keybag", other, "--passphrase-fd", "3",
            passphrase: CommandSandbox.passphrase)
        #expect(restored.status == 0, "\(restored.errors)")
        try fetch("f", from: String(sandbox.restored("tree", in: "target")), shape, as: "found")
        #expect(try sandbox.run("cat", "--keybag", other, "found").text == "deep\n")
        try remove("tree", "target", "backup")
    }

    @Test("upgrade protects, and unprotect decrypts, what is at the bottom", arguments: shapes)
    func conversions(_ shape: Shape) throws {
        try makeTree(shape)
        let upgraded = try run("upgrade", "tree")
        #expect(upgraded.status == 0, "\(upgraded.errors)")
        try fetch("plain", from: "tree", shape, as: "found")
        #expect(try sandbox.run("cat", "found").text == "plain")
        let decrypted = try run("unprotect", "--recursive", "tree")
        #expect(decrypted.status == 0, "\(decrypted.errors)")
        try fetch("f", from: "tree", shape, as: "found")
        #expect(try sandbox.stored("found") == Data("deep\n".utf8))
        try remove("tree")
    }

    @Test("verify, repair, ls and rotate reach the bottom", arguments: shapes)
    func looks(_ shape: Shape) throws {
        try makeTree(shape)
        let verified = try run("verify", "--recursive", "--json", "tree")
        #expect(verified.status == 0 && verified.text.contains("\"whole\": 1"), "\(verified.errors)")
        let repaired = try run("repair", "tree")
        #expect(repaired.status == 0, "\(repaired.errors)")
        let listed = try run("ls", "-R", "tree")
        #expect(listed.status == 0, "\(listed.errors)")
        let end = "/\(shape.name)/f"
        #expect(listed.text.split(separator: "\n").contains { $0.hasPrefix("complete ") && $0.hasSuffix(end) })
        let rotated = try run(
            "rotate", "--root", "tree", "--json", "--passcode-fd", "3", passphrase: CommandSandbox.passcode)
        #expect(rotated.status == 0 && rotated.text.contains("\"rewrapped\": 1"), "\(rotated.errors)")
        try remove("tree")
    }
}
