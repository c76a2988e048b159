import Foundation
import Testing

@testable import DataProtection

/// Every class in every lock state: the table of operations by path.
@Suite struct StateTableTests {
    private static let text = Array("what the file contains".utf8)

    @Test(arguments: Cell.row("create", "nyn", "yyy", "nyy", "yyy"))
    func create(_ cell: Cell) throws {
        let bed = try FileTestBed()
        try bed.begin(cell.moment)
        let path = bed.path("f")
        cell.expect(path, .create) { try bed.make("f", cell.protectionClass, Self.text) }
        #expect(try bed.names() == (cell.isAllowed ? ["f"] : []), "nothing is left behind")
        try bed.enter(.unlocked)
        if cell.isAllowed { try #require(try bed.read(path) == Self.text) }
    }

    @Test(arguments: Cell.row("create, class inherited", "nyn", "yyy", "nyy", "---"))
    func createInherited(_ cell: Cell) throws {
        let bed = try FileTestBed()
        try bed.keybag.setProtection(cell.protectionClass, ofItemAt: bed.directory)
        try bed.begin(cell.moment)
        cell.expect(bed.path("f"), .create) {
            try ProtectedFile.create(bed.path("f"), keybag: bed.keybag).close()
        }
        #expect(try bed.names() == (cell.isAllowed ? ["f"] : []), "nothing is left behind")
        if cell.isAllowed {
            #expect(try ProtectedFileInfo(of: bed.path("f")).protectionClass == cell.protectionClass)
        }
    }

    @Test(arguments: Cell.row("open and read", "nyn", "nyn", "nyy", "yyy"))
    func openAndRead(_ cell: Cell) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", cell.protectionClass, Self.text)
        try bed.begin(cell.moment)
        cell.expect(path, .open) { try #require(try bed.read(path) == Self.text) }
    }

    @Test(arguments: Cell.row("open and write", "nyn", "nyn", "nyy", "yyy"))
    func openAndWrite(_ cell: Cell) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", cell.protectionClass, Self.text)
        let before = try path.contents()
        try bed.begin(cell.moment)
        cell.expect(path, .open) {
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            try file.write([33], at: UInt64(Self.text.count))
            try file.close()
        }
        if !cell.isAllowed { #expect(try path.contents() == before) }
        try bed.enter(.unlocked)
        #expect(try bed.read(path) == (cell.isAllowed ? Self.text + [33] : Self.text))
    }

    /// Also while another handle holds the file open: opening asks for the key again.
    @Test(arguments: Cell.row("truncate by path", "nyn", "nyn", "nyy", "yyy"))
    func truncateByPath(_ cell: Cell) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", cell.protectionClass, Self.text)
        let other = try ProtectedFile.open(path, keybag: bed.keybag)
        try bed.begin(cell.moment)
        cell.expect(path, .open) {
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            try file.truncate(to: 4)
            try file.close()
        }
        try other.close()
        try bed.enter(.unlocked)
        #expect(try bed.read(path) == (cell.isAllowed ? Array(Self.text.prefix(4)) : Self.text))
    }

    @Test(arguments: Cell.row("replace as a whole", "nyn", "yyy", "nyy", "yyy"))
    func replace(_ cell: Cell) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", cell.protectionClass, Self.text)
        let before = try path.contents()
        try bed.begin(cell.moment)
        cell.expect(path, .create) {
            // No class named: that of the file which is replaced.
            let writer = try ProtectedFileWriter(path, keybag: bed.keybag)
            try [7, 8, 9].withUnsafeBytes { try writer.append($0) }
            try writer.finish()
        }
        #expect(try bed.names() == ["f"])
        if !cell.isAllowed { #expect(try path.contents() == before, "the old file is as it was") }
        #expect(try ProtectedFileInfo(of: path).protectionClass == cell.protectionClass)
    }

    @Test(arguments: Cell.row("info, names, bytes as stored", "yyy", "yyy", "yyy", "yyy"))
    func keyless(_ cell: Cell) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", cell.protectionClass, Self.text)
        try bed.begin(cell.moment)
        cell.expect(path, .read) {
            let info = try ProtectedFileInfo(of: path)
            #expect(info.protectionClass == cell.protectionClass && info.size == Int64(Self.text.count))
            #expect(info.keybag == bed.keybag.uuid && info.generation == 1)
            try ProtectedFile.copyCiphertext(from: path, to: bed.path("copy"))
            try FileManager.default.moveItem(atPath: path.string, toPath: bed.path("moved").string)
            try FileManager.default.linkItem(atPath: bed.path("moved").string, toPath: bed.path("linked").string)
            try bed.path("moved").remove()
            #expect(try ProtectedFileInfo(of: bed.path("linked")).protectionClass == cell.protectionClass)
        }
        try bed.enter(.unlocked)
        #expect(try bed.read(bed.path("copy")) == Self.text)
        #expect(try bed.read(bed.path("linked")) == Self.text)
    }

    @Test(arguments: Cell.row("class of a directory", "yyy", "yyy", "yyy", "yyy"))
    func directoryClass(_ cell: Cell) throws {
        let bed = try FileTestBed()
        try bed.begin(cell.moment)
        cell.expect(bed.directory, .changeClass) {
            try bed.keybag.setProtection(cell.protectionClass, ofItemAt: bed.directory)
        }
        #expect(DirectoryDefault.value(of: bed.directory) == cell.protectionClass.shortName)
    }

    /// Class C and D from plaintext need their key, B none.
    @Test(arguments: Cell.row("protect", "nyn", "yyy", "nyy", "yyy"))
    func protect(_ cell: Cell) throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", Self.text)
        try bed.begin(cell.moment)
        cell.expect(path, .create) { try bed.keybag.protect(path, as: cell.protectionClass) }
        #expect(try bed.names() == ["f"])
        if !cell.isAllowed { #expect(try path.contents() == Self.text) }
        try bed.enter(.unlocked)
        if cell.isAllowed { try #require(try bed.read(path) == Self.text) }
    }

    @Test(arguments: Cell.row("unprotect", "nyn", "nyn", "nyy", "yyy"))
    func unprotect(_ cell: Cell) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", cell.protectionClass, Self.text)
        let before = try path.contents()
        try bed.begin(cell.moment)
        cell.expect(path, .read) { try bed.keybag.unprotect(path) }
        #expect(try bed.names() == ["f"])
        #expect(try path.contents() == (cell.isAllowed ? Self.text : before))
    }
}
