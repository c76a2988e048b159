import Foundation
import Testing

/// Names and settings of others reach no terminal as they are.
@Suite("Control characters printed as numbers")
struct TerminalTests {
    private let sandbox: CommandSandbox
    init() throws { sandbox = try CommandSandbox() }

    private func expectHarmless(_ done: Finished, says words: String, _ name: String) {
        #expect(done.errors.contains(words) || done.text.contains(words), "\(name): \(done.errors)\(done.text)")
        let scalars = (done.errors + done.text).unicodeScalars
        #expect(scalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F || $0 == "\n" }, "\(name): \(done.errors)")
    }

    @Test(
        "Of the configuration",
        arguments: [
            "default-class = x\u{1B}]0;pwned\u{7}\u{1B}[31mRED", "evil\u{1B}[31mRED = 1", "agent-grace = \u{1B}[31mRED",
        ])
    func configuration(line: String) throws {
        try sandbox.put(line + "\n", at: "config/protectfs/config")
        try sandbox.unlock()
        expectHarmless(try sandbox.run("write", "new", input: Data("x".utf8)), says: "\\u{1b}[31mRED", "write")
        _ = try expectHarmless(sandbox.run("explain", "new"), says: "\\u{1b}[31mRED", "explain")
    }

    @Test("Of rules")
    func rules() throws {
        try sandbox.put("x", at: "tree/file")
        try sandbox.put("* c\u{1B}[31mRED\n", at: "rules")
        let done = try sandbox.run("upgrade", "--rules", "rules", "tree")
        expectHarmless(done, says: "there is no class c\\u{1b}[31mRED", "upgrade")
    }

    @Test("Of paths, in the agent's log")
    func agentLog() throws {
        let done = try sandbox.run("agent", "run", "--keybag", sandbox.path("no\u{1B}[31mRED\u{61C}"))
        expectHarmless(done, says: "no\\u{1b}[31mRED\\u{61c}", "agent")
    }
}
