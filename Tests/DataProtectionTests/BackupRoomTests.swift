import Glibc
import ProtectionFormat
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// A backup has room for one earlier copy of a file: what may be the last good copy stays when that is taken.
@Suite struct BackupRoomTests {
    private let beds: BackupBed
    init() throws { beds = try BackupBed() }

    private func alter(_ path: FilePath) throws {
        var bytes = try path.contents()
        bytes[bytes.count - 1] ^= 1
        try path.overwrite(bytes)
    }

    @Test(
        "While locked: an altered file does not replace a verified copy of a weaker class, which has replaced another one"
    )
    func weakerInBetween() throws {
        let path = try beds.bed.make("f", .complete, pattern(1, count: 20_000))
        let complete = try path.contents()
        let weaker = try beds.bed.make("weaker", .completeUntilFirstUserAuthentication, pattern(2, count: 20_000))
        #expect(try beds.backUp([path]) == ["f": "copied"])
        try beds.keybag.lock()
        try path.overwrite(try weaker.contents())
        #expect(try beds.backUp([path]) == ["f": "copied"])
        let verified = try beds.copy("f").contents()
        try path.overwrite(complete)
        try alter(path)
        for _ in 0..<2 { #expect(try beds.backUp([path]) == ["f": "noRoomForEarlierCopy"]) }
        #expect(try beds.copy("f").contents() == verified)
        #expect(try beds.earlier("f").contents() == complete)
    }

    /// A file that was put back to an earlier state, and goes on from there: its later state is the earlier copy.
    private func goneOn() throws -> (path: FilePath, first: [UInt8], second: [UInt8]) {
        let path = try beds.bed.make("f", .complete, pattern(1, count: 20_000))
        func change(_ number: UInt64) throws {
            let file = try ProtectedFile.open(path, .readWrite, keybag: beds.keybag)
            for _ in 0..<number {
                try file.write(pattern(number, count: 100), at: 0)
                try file.sync()
            }
            try file.close()
        }
        let first = try path.contents()
        try change(2)
        let second = try path.contents()
        #expect(try beds.backUp([path]) == ["f": "copied"])
        try path.overwrite(first)
        #expect(try beds.backUp([path]) == ["f": "damaged"])
        try change(5)
        #expect(try beds.backUp([path]) == ["f": "damaged"], "its earlier copy has other commits")
        return (path, first, second)
    }

    @Test(
        "The copy stays when the file is put back once more, and when it is altered while locked",
        arguments: [false, true])
    func heldInItsPlace(isLocked: Bool) throws {
        let (path, first, second) = try goneOn()
        let verified = try beds.copy("f").contents()
        if isLocked {
            try beds.keybag.lock()
            try alter(path)
        } else {
            try path.overwrite(first)
        }
        for _ in 0..<2 { #expect(try beds.backUp([path]) == ["f": "noRoomForEarlierCopy"]) }
        #expect(try beds.copy("f").contents() == verified)
        #expect(try beds.earlier("f").contents() == second)
        // Whoever has looked makes room.
        try beds.earlier("f").remove()
        #expect(try beds.backUp([path]) == ["f": isLocked ? "copied" : "damaged"])
        #expect(try beds.earlier("f").contents() == verified)
    }

    @Test(
        "A copy that was never verified gives way to the next one while locked, until one is verified",
        arguments: [0o600, 0o400])
    func everyNight(mode: Int) throws {
        let path = try beds.bed.makeWhole("f", .completeUnlessOpen, pattern(1, count: 9000))
        try path.setMode(mode_t(mode))
        try beds.backUp()
        let good = try beds.copy("f").contents()
        try beds.keybag.lock()
        for number: UInt64 in 2..<5 {
            try path.remove()
            try beds.bed.makeWhole("f", .completeUnlessOpen, pattern(number, count: 9000)).setMode(mode_t(mode))
            #expect(try beds.backUp() == ["f": "copied"])
            #expect(try beds.earlier("f").contents() == good)
        }
        try beds.bed.enter(.unlocked)
        let marked = try LowerFile(beds.copy("f"), flags: O_RDONLY)
        #expect(try names(marked) == ["user.protectfs.unverified"])
        #expect(try beds.backUp() == ["f": "unchanged"])
        #expect(try names(marked) == [] && beds.earlier("f").directory.names() == [])
        #expect(try beds.copy("f").mode() == mode_t(mode))
    }

    @Test("A copy that is verified now takes the place of the one that was kept until then")
    func takesPlace() throws {
        let path = try beds.bed.make("f", .completeUnlessOpen, pattern(1, count: 9000))
        let writer = try ProtectedFile.open(path, .readWrite, keybag: beds.keybag)
        let oldest = try path.contents()
        func change() throws {
            try writer.write([9], at: 0)
            try writer.sync()
        }
        try change()
        try beds.backUp([path])
        try beds.keybag.lock()
        try change()
        #expect(try beds.backUp([path]) == ["f": "copied"])
        let later = try beds.copy("f").contents()
        try beds.bed.enter(.unlocked)
        try writer.close()
        try path.overwrite(oldest)
        #expect(try beds.backUp([path]) == ["f": "damaged"], "it lacks commits that its earlier copy has")
        #expect(try beds.earlier("f").contents() == later)
    }

    @Test("A file whose key was lost is replaced by a restore, and not called unchanged")
    func lostKey() throws {
        try beds.bed.make("f", .complete, [1, 2, 3])
        try beds.backUp()
        try beds.restore()
        try beds.restorer.rotate()
        try beds.restorer.forgetRetired()
        #expect(try beds.restore() == ["f": "exists"])
        #expect(try beds.restore(to: "target", .replacing) == ["f": "copied"])
        #expect(try beds.text(beds.restored("f")) == [1, 2, 3])
    }

    @Test("What a backup notes of a copy by an attribute does not come back with the file")
    func attributes() throws {
        let (path, _, second) = try goneOn()
        try path.overwrite(second)
        try ExtendedAttributes.set("user.mine", to: [1], of: path)
        // Now the commits that came later are only in its earlier copy.
        #expect(try beds.backUp([path]) == ["f": "damaged"])
        #expect(try names(LowerFile(beds.earlier("f"), flags: O_RDONLY)) == ["user.protectfs.held"])
        #expect(try beds.restore() == ["f": "restoredEarlier"])
        #expect(try names(LowerFile(beds.copy("f"), flags: O_RDONLY)) == ["user.mine"])
        for file in try [path, beds.restored("f"), beds.copy("f")] {
            #expect(
                try !names(LowerFile(file, flags: O_RDONLY)).contains { $0.hasPrefix("user.protectfs.") }, "\(file)")
        }
    }

    private func names(_ file: LowerFile) throws -> [String] {
        try ExtendedAttributes.names(of: file).map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        "A restore does not call a file unchanged that it could not look at, because a lock has come",
        arguments: [false, true])
    func lockedMeanwhile(isReplaced: Bool) throws {
        try beds.bed.make("f", .complete, pattern(1, count: 20_000))
        try beds.backUp()
        try beds.restore()
        let path = try beds.restored("f")
        try alter(path)
        let restored = RestoredFile(opened: try beds.open(), keybag: beds.restorer.keybag)
        try beds.restorer.keybag.lock()
        let source = DirectoryEntry("f", in: try LowerDirectory(beds.copy("f").directory))
        let target = DirectoryEntry("f", in: try LowerDirectory(path.directory))
        let before = try path.contents()
        expectError("locked") { _ = try restored.restore(source, to: target, isReplaced ? .replace : .refuse) }
        #expect(try path.contents() == before)
    }
}
