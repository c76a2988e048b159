import Foundation
import Testing

@Suite("Examples/PortFromIOS", .enabled(if: Example.areBuilt, "the examples are not built: Tests/build builds them"))
struct PortFromIOSTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.put("dear diary, this is old\n", at: "journal/old")
        try sandbox.put("dear diary, this is older\n", at: "journal/attic/older")
    }

    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func source(_ path: String) throws -> String {
        String(decoding: try Data(contentsOf: root.appendingPathComponent(path)), as: UTF8.self)
    }

    private func run(_ program: String) throws -> Finished {
        try sandbox.shell("exec \"$(dirname \"$PROTECTFS\")/\(program)\" journal")
    }

    private func filesWithPlaintext() throws -> [String] {
        try sandbox.shell("grep -rl 'dear diary' journal | sort").text.split(separator: "\n").map(String.init)
    }

    private static let all = ["attic/older", "copy", "old", "one", "two"].map { "journal/" + $0 }

    @Test("As it is on iOS: compiles, says nothing, and leaves plaintext")
    func before() throws {
        let done = try run("PortFromIOSBefore")
        #expect(done.status == 0)
        #expect(done.text == "dear diary, this is one\n0 failed\n")
        #expect(try filesWithPlaintext() == Self.all)
    }

    @Test("Ported: every file is complete, and while locked the errors are those of iOS")
    func after() throws {
        try sandbox.unlock()
        for _ in 0..<2 {
            let done = try run("PortFromIOS")
            #expect(done.text == "dear diary, this is one\n0 failed\n", "\(done.errors)")
        }
        #expect(try filesWithPlaintext() == [])
        for file in Self.all { #expect(try sandbox.run("class", file).text == "complete\n") }
        #expect(try sandbox.run("class", "journal/attic").text == "complete\n")
        #expect(try sandbox.run("cat", "journal/attic/older").text == "dear diary, this is older\n")
        try sandbox.put("dear diary, this is new\n", at: "journal/new")
        try sandbox.run("lock")
        #expect(try run("PortFromIOS").text == "CocoaError 513\n1 failed\nlast: CocoaError 513\n")
        #expect(try filesWithPlaintext() == ["journal/new"])
    }

    @Test("The port is the original with the changes of the table and no other")
    func changes() throws {
        let table = try PortingTable(markdown: Self.source("docs/guide/PORTING-FROM-IOS.md"))
        let original = try Self.source("Examples/PortFromIOS/iOS/main.swift")
        let (text, counts) = try table.apply(to: original)
        #expect(counts.allSatisfy { $0 > 0 }, "every row is needed: \(counts)")
        #expect(try text == Self.source("Examples/PortFromIOS/Linux/main.swift"))
    }
}
