import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Bytes that another program appended to a copy in a backup. FORMAT.md §2.16.
@Suite("Bytes appended to copies in a backup")
struct BackupAppendedTests {
    private let beds: BackupBed
    private let path: FilePath
    private let line = Array("a line of another program\n".utf8)

    init() throws {
        beds = try BackupBed()
        path = try beds.bed.make("f", .complete, pattern(1, count: 20_000))
    }

    private func append(to path: FilePath) throws { try path.overwrite(try path.contents() + line) }

    private func change(_ seed: UInt64) throws { try beds.bed.make("f", .complete, pattern(seed, count: 20_000)) }

    /// What was saved of copies of the file, oldest first.
    private func saved() throws -> [[UInt8]] {
        let place = beds.backup.appending("appended").appending(beds.root.components)
        guard OwnDirectory.exists(place) else { return [] }
        let names = try place.names()
        #expect(names == (0..<names.count).map { "f.appended-\($0 + 1)" })
        return try names.map { try place.appending($0).contents() }
    }

    @Test(
        "Bytes appended to a copy in the backup are kept when a later copy takes its place",
        arguments: ProtectionState.allOfThem)
    func toACopy(_ state: ProtectionState) throws {
        try beds.backUp()
        try append(to: beds.copy("f"))
        try change(2)
        try beds.bed.enter(state)
        #expect(try beds.backUp() == ["f": "copied"])
        #expect(try beds.copy("f").contents() == path.contents())
        if state != .unlocked {
            // All of it is in the earlier copy, as long as nobody could verify the later one.
            #expect(try saved() == [])
            #expect(try beds.earlier("f").contents().suffix(line.count) == line[...])
            try beds.bed.enter(.unlocked)
            #expect(try beds.backUp() == ["f": "unchanged"])
            #expect(!OwnDirectory.exists(try beds.earlier("f")))
        }
        #expect(try saved() == [line])
        #expect(try beds.backUp(delete: true) == ["f": "unchanged"])
        try path.remove()
        #expect(try beds.backUp(delete: true) == ["f": "removed"])
        #expect(try saved() == [line], "no later pass removes it")
        let warned = beds.bed.bag.warnings.unusual.map(\.caseName)
        #expect(warned.filter { $0 == "appendedBytesSaved" }.count == 1)
    }

    @Test("Bytes appended to the file are in its copy, and stay saved after a writer has moved them away")
    func toTheFile() throws {
        try append(to: path)
        try beds.backUp()
        try append(to: path)
        #expect(try beds.backUp() == ["f": "copied"])
        #expect(try saved() == [], "the new copy has both lines")
        #expect(try beds.copy("f").contents() == path.contents())
        try change(2)
        #expect(try beds.bed.path("f.appended-1").contents() == line + line)
        #expect(try beds.backUp()["f"] == "copied")
        #expect(try saved() == [line + line])
        try change(3)
        #expect(try beds.backUp()["f"] == "copied")
        #expect(try saved() == [line + line])
    }

    @Test("Another line at the same place is another line")
    func anotherLine() throws {
        try append(to: path)
        try beds.backUp()
        let other = Array("b line of another program\n".utf8)
        try path.overwrite(Array(try path.contents().dropLast(line.count)) + other)
        #expect(try beds.backUp() == ["f": "copied"])
        #expect(try saved() == [line])
    }

    @Test("A copy that cannot be read is not replaced")
    func unreadable() throws {
        try beds.backUp()
        let before = try beds.copy("f").contents()
        try change(2)
        let lease = try Lease(beds.copy("f"))
        #expect(try beds.backUp() == ["f": "busy"])
        lease.end()
        #expect(try beds.copy("f").contents() == before)
        #expect(try beds.backUp() == ["f": "copied"])
    }
}
