import SystemPackage
import Testing

@testable import DataProtection

@Suite("The machine that uses a store")
struct StoreMachineTests {
    private let scratch = ScratchDirectory()
    private let here = String(repeating: "a1", count: 16)
    private let elsewhere = String(repeating: "b2", count: 16)
    private var file: FilePath { scratch.path.appending("machine") }

    @Test("The first machine is noted, and others are refused until the note is removed")
    func claimed() throws {
        for _ in 0..<2 { try StoreMachine.claim(scratch.path, for: here) }
        #expect(try file.contents() == Array("\(here)\n".utf8))
        let error = expectError("usedElsewhere") { try StoreMachine.claim(scratch.path, for: elsewhere) }
        #expect(error == .usedElsewhere(file))
        #expect(try file.contents() == Array("\(here)\n".utf8), "nothing is taken over without being told")
        try file.remove()
        try StoreMachine.claim(scratch.path, for: elsewhere)
        expectError("usedElsewhere") { try StoreMachine.claim(scratch.path, for: here) }
        #expect(try DirectoryListing.names(of: scratch.path).map { "\($0)" } == ["machine"])
    }

    @Test("Where the machine has no id nothing is noted or refused")
    func unknown() throws {
        try StoreMachine.claim(scratch.path, for: nil)
        #expect(try DirectoryListing.names(of: scratch.path).isEmpty)
        try StoreMachine.claim(scratch.path, for: here)
        try StoreMachine.claim(scratch.path, for: nil)
    }

    @Test("Many at once on one machine all go on")
    func concurrently() async throws {
        let (path, machine) = (scratch.path, here)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<16 { group.addTask { try StoreMachine.claim(path, for: machine) } }
            try await group.waitForAll()
        }
        #expect(try file.contents() == Array("\(machine)\n".utf8))
    }

    @Test("An id has 32 digits, and is not the machine's own")
    func own() throws {
        guard let own = StoreMachine.own else { return print("skipped: there is no /etc/machine-id") }
        #expect(own.count == 32 && own.allSatisfy(\.isHexDigit))
        let text = try FilePath("/etc/machine-id").contents()
        #expect(!text.starts(with: Array(own.utf8)))
    }
}
