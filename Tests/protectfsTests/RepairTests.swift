import Foundation
import Testing

@testable import protectfs

@Suite("repair")
struct RepairTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func end(_ process: Process) {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    @Test("Without any key, in a tree: the contents stay what they were, and it says what it did")
    func tree() throws {
        end(try sandbox.startWriter(of: "tree/sub/file"))
        try sandbox.protectedFile("tree/closed")
        try sandbox.put("plain", at: "tree/plain")
        let contents = try sandbox.run("cat", "tree/sub/file").output
        try sandbox.run("lock")
        let stored = try sandbox.stored("tree/sub/file")
        let silent = try sandbox.run("repair", "tree")
        #expect(silent.status == 0 && silent.text == "" && silent.errors == "", "\(silent.errors)")
        #expect(try sandbox.stored("tree/sub/file") != stored, "the chunks are at home")
        let again = try sandbox.shell("cd tree && \"$PROTECTFS\" repair --json")
        #expect(again.status == 0)
        #expect(again.text.contains("sub/file") && again.text.contains("\"chunks\": 2"), "\(again.text)")
        #expect(!again.text.contains("closed\"") && !again.text.contains("plain"))
        try sandbox.unlock()
        #expect(try sandbox.run("cat", "tree/sub/file").output == contents)
        #expect(try sandbox.run("verify", "tree/sub/file").status == 75, "the records are in force")
    }

    @Test("Named: plaintext is 65, a file that somebody writes is 75, one that is not there 66")
    func refused() throws {
        try sandbox.put("plain", at: "plain")
        #expect(try sandbox.run("repair", "plain").status == 65)
        #expect(try sandbox.run("repair", "nothing").status == 66)
        let writer = try sandbox.startWriter(of: "file")
        defer { end(writer) }
        let done = try sandbox.run("repair", "file")
        #expect(done.status == 75 && done.errors.contains("'file'"), "\(done.errors)")
        #expect(try sandbox.run("repair").status == 0, "in a directory it is left alone")
        try FileManager.default.createSymbolicLink(atPath: sandbox.path("link"), withDestinationPath: "file")
        #expect(try sandbox.run("repair", "link").status == 75, "a link that is named is followed")
    }
}
