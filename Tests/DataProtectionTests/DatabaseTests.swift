import Foundation
import SystemPackage
import Testing

@testable import DataProtection

/// SQLite opens its files itself: nothing converts a database behind its back.
@Suite struct DatabaseTests {
    private static let text = [UInt8](repeating: 0x63, count: 20_000)
    private static let database = Array("SQLite format 3".utf8) + [0] + text
    private static let log: [UInt8] = [0x37, 0x7F, 0x06, 0x82] + text
    private static let journal: [UInt8] = [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7] + text

    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    private func protectAll(_ path: FilePath) throws {
        try bed.keybag.protect(path, as: .complete, includingDatabases: true)
    }

    @Test func isRefusedByEveryCallThatConverts() throws {
        let path = try bed.makePlain("data.db", Self.database)
        expectError("database") { try bed.keybag.protect(path, as: .complete) }
        expectCocoa(.fileWriteUnknown, "database") {
            try FileManager.default.setAttributes(
                [.protectionKey: FileProtectionType.complete], ofItemAtPath: path.string, protectedBy: bed.keybag)
        }
        expectCocoa(.fileReadUnknown, "database") {
            _ = try Data(contentsOf: path.url, protectedBy: bed.keybag, ifPlaintext: .upgrade(to: .complete))
        }
        #expect(try path.contents() == Self.database)
        for suffix in ["-wal", "-shm", "-journal"] {
            let beside = try bed.makePlain("data.db\(suffix)", Self.text)
            for includes in [false, true] {
                #expect(throws: DataProtectionError.because(FileFailure.database(beside, of: path))) {
                    try bed.keybag.protect(beside, as: .complete, includingDatabases: includes)
                }
            }
            #expect(try beside.contents() == Self.text)
        }
    }

    @Test(arguments: ["-wal", "-shm", "-journal"]) func isRefusedWhileAnotherFileHoldsItsData(_ suffix: String) throws {
        let path = try bed.makePlain("data.db", Self.database)
        let beside = try bed.makePlain("data.db\(suffix)", Self.text)
        #expect(throws: DataProtectionError.because(FileFailure.databaseInUse(path, holding: beside))) {
            try protectAll(path)
        }
        #expect(try path.contents() == Self.database)
        try beside.overwrite(suffix == "-journal" ? [0] + Self.text : [])
        try protectAll(path)
        #expect(try bed.read(path) == Self.database)
        #expect(try beside.contents().first != 0x53, "it is as it was")
    }

    /// An encrypted database begins with anything, and one that is being made is empty.
    @Test(arguments: [[UInt8](), text]) func isKnownByItsLogs(_ bytes: [UInt8]) throws {
        let path = try bed.makePlain("data.db", bytes)
        for (suffix, log) in [("-wal", Self.log), ("-journal", Self.journal)] {
            let beside = try bed.makePlain("data.db\(suffix)", log)
            expectError("database") { try bed.keybag.protect(path, as: .complete) }
            expectError("databaseInUse") { try protectAll(path) }
            expectError("database") { try protectAll(beside) }
            try beside.overwrite([])
        }
        #expect(try bed.keybag.protect(path, as: .complete) == .converted, "nothing says that it is a database")
    }

    @Test func namesAloneSayNothing() throws {
        for name in ["lonely-wal", "notes", "notes-wal", "notes-journal"] {
            let path = try bed.makePlain(name, Self.text)
            #expect(try bed.keybag.protect(path, as: .complete) == .converted, "\(name)")
        }
    }

    /// A log beside a database that is ciphertext already: SQLite would remove it if it were no log any more.
    @Test func aLogStaysBesideAProtectedDatabase() throws {
        let path = try bed.make("data.db", .complete, Self.database)
        let log = try bed.makePlain("data.db-wal", Self.log)
        #expect(throws: DataProtectionError.because(FileFailure.database(log, of: path))) {
            try bed.keybag.protect(log, as: .complete)
        }
    }
}
