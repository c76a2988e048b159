import Conformance
import Testing

@testable import DataProtection

/// Changing the class: what the state allows, and that nothing else of the file changes.
@Suite struct ClassChangeTests {
    private static let text = [UInt8](repeating: 0x62, count: 9000)

    struct Change: CustomTestStringConvertible, Sendable {
        let old: ProtectionClass
        let new: ProtectionClass
        let moment: Moment
        let isAllowed: Bool
        var testDescription: String { "\(old) to \(new), \(moment): \(isAllowed ? "goes" : "locked")" }
    }

    /// Those of the table, for a file that nobody has open: what becomes of its two heads is looked at here.
    static let changes: [Change] = ((try? SemanticsTable.compiledIn().classChanges) ?? []).flatMap { change in
        zip(Moment.allCases, change.closed).map { moment, mark in
            Change(old: change.old, new: change.new, moment: moment, isAllowed: mark == .goes)
        }
    }

    @Test(arguments: changes)
    func byPath(_ change: Change) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", change.old, Self.text)
        let before = try path.contents()
        try bed.begin(change.moment)
        if change.isAllowed {
            try bed.keybag.setProtection(change.new, ofItemAt: path)
            #expect(try ProtectedFileInfo(of: path).protectionClass == change.new)
            let stored = try StoredFile(path)
            stored.expectClosed()
            #expect(!stored.heads.hasStaleWrap)
        } else {
            expectError("locked") { try bed.keybag.setProtection(change.new, ofItemAt: path) }
        }
        if !change.isAllowed || change.old == change.new { #expect(try path.contents() == before, "as it was") }
        try bed.enter(.unlocked)
        #expect(try bed.read(path) == Self.text)
        #expect(bed.notes.isEmpty, "no note is left")
    }

    /// B's private key is away: an open handle does not help.
    @Test func notByWayOfAnOpenHandle() throws {
        let bed = try FileTestBed(state: .locked)
        let file = try ProtectedFile.create(bed.path("f"), as: .completeUnlessOpen, keybag: bed.keybag)
        try file.write(Self.text, at: 0)
        try file.sync()
        for weaker in [ProtectionClass.none, .completeUntilFirstUserAuthentication] {
            expectError("locked") { try bed.keybag.setProtection(weaker, ofItemAt: bed.path("f")) }
        }
        try file.close()
    }

    @Test(arguments: ProtectionClass.allCases, ProtectionClass.allCases)
    func openHandlesFollow(_ old: ProtectionClass, _ new: ProtectionClass) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", old, Self.text)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        let reader = try ProtectedFile.open(path, keybag: bed.keybag)
        try writer.write([1], at: 0)
        try writer.sync()
        try writer.write([2], at: 5000)
        try bed.keybag.setProtection(new, ofItemAt: path)
        #expect(try reader.bytes(at: 0, count: 1) == [1])
        #expect(try reader.protectionClass() == new)
        try writer.write([3], at: 8999)
        try bed.keybag.lock()
        if new == .complete {
            expectError("locked") { _ = try reader.bytes(at: 0, count: 1) }
            expectError("locked") { _ = try writer.bytes(at: 0, count: 1) }
        } else {
            #expect(try writer.bytes(at: 5000, count: 1) == [2])
            #expect(try reader.bytes(at: 5000, count: 1) == [0x62], "not committed yet")
        }
        try writer.close()
        try bed.enter(.unlocked)
        let end = try bed.read(path)
        #expect([end[0], end[5000], end[8999], end[1]] == [1, 2, 3, 0x62])
        #expect(try ProtectedFileInfo(of: path).protectionClass == new, "a writer does not bring the old class back")
        try StoredFile(path).expectClosed()
    }

    @Test(
        "A class that a forged head only claims is not called done, and the head is not copied over the other one",
        arguments: [ProtectionClass.complete, .completeUntilFirstUserAuthentication, .none])
    func claimed(_ claimed: ProtectionClass) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", claimed == .none ? .complete : .none, Self.text)
        let genuine = Array(try path.contents()[4096..<8192])
        try bed.forgeClass(of: path, claimed)
        // The second head is genuine again, and not in force: of two heads of one generation the first is.
        var bytes = try path.contents()
        bytes.replaceSubrange(4096..<8192, with: genuine)
        try path.overwrite(bytes)
        expectError("otherKey") { try bed.keybag.setProtection(claimed, ofItemAt: path) }
        #expect(try path.contents() == bytes)
    }

    @Test("While the class key is away, the class that a head claims is the class") func claimedWhileLocked() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none, Self.text)
        try bed.forgeClass(of: path, .complete)
        try bed.enter(.locked)
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        try bed.enter(.unlocked)
        expectError("otherKey") { try bed.keybag.setProtection(.complete, ofItemAt: path) }
    }

    @Test func ofWhatIsNoProtectedFile() throws {
        let bed = try FileTestBed()
        let plain = try bed.makePlain("plain", Self.text)
        expectError("notProtected") { try bed.keybag.setProtection(.complete, ofItemAt: plain) }
        #expect(try plain.contents() == Self.text)
        try bed.path("fifo").makeFIFO()
        expectError("notRegularFile") { try bed.keybag.setProtection(.complete, ofItemAt: bed.path("fifo")) }
        expectError("system") { try bed.keybag.setProtection(.complete, ofItemAt: bed.path("nothing")) }
        let other = try FileTestBed()
        let foreign = try other.make("f", .none, Self.text)
        expectError("foreignKeybag") { try bed.keybag.setProtection(.complete, ofItemAt: foreign) }
        #expect(bed.notes.isEmpty)
    }
}
