import Foundation
import Testing

@testable import DataProtection

/// `setAttributes`, `attributesOfItem`, `createFile`, `contents`: the words that Foundation on Linux accepts in silence.
@Suite struct FoundationAttributesTests {
    private let files = FileManager.default
    private static let data = Data("as Foundation has it".utf8)
    static let types: [(FileProtectionType, ProtectionClass)] = [
        (.complete, .complete), (.completeUnlessOpen, .completeUnlessOpen),
        (.completeUntilFirstUserAuthentication, .completeUntilFirstUserAuthentication), (.none, ProtectionClass.none),
    ]

    @Test(arguments: types) func aPlaintextFileIsConverted(_ type: FileProtectionType, _ its: ProtectionClass) throws {
        let bed = try FileTestBed()
        for isRaw in [false, true] {
            let path = try bed.makePlain("f", Array(Self.data))
            try path.setMode(0o644)
            #expect(try files.attributesOfItem(atPath: path.string, protectedBy: bed.keybag)[.protectionKey] == nil)
            let value: Any = isRaw ? type.rawValue : type
            try files.setAttributes(
                [.protectionKey: value, .posixPermissions: 0o600], ofItemAtPath: path.string, protectedBy: bed.keybag)
            #expect(try ProtectedFileInfo(of: path).protectionClass == its)
            #expect(try Data(contentsOf: path.url, protectedBy: bed.keybag) == Self.data)
            #expect(try path.mode() == 0o600)
            try bed.keybag.lock()
            let attributes = try files.attributesOfItem(atPath: path.string, protectedBy: bed.keybag)
            #expect((attributes[.protectionKey] as? FileProtectionType)?.rawValue == type.rawValue)
            #expect((attributes[.size] as? UInt) == UInt(Self.data.count))
            try bed.enter(.unlocked)
        }
    }

    @Test func aProtectedFileIsReclassedUpAndDown() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUntilFirstUserAuthentication, [1, 2, 3])
        for type in [FileProtectionType.complete, .none, .completeUnlessOpen] {
            try files.setAttributes([.protectionKey: type], ofItemAtPath: path.string, protectedBy: bed.keybag)
            let attributes = try files.attributesOfItem(atPath: path.string, protectedBy: bed.keybag)
            #expect((attributes[.protectionKey] as? FileProtectionType)?.rawValue == type.rawValue)
        }
        #expect(try bed.read(path) == [1, 2, 3])
    }

    @Test func aDirectoryGetsItsDefault() throws {
        let bed = try FileTestBed()
        let directory = bed.directory.string
        #expect(try files.attributesOfItem(atPath: directory, protectedBy: bed.keybag)[.protectionKey] == nil)
        try files.setAttributes(
            [.protectionKey: FileProtectionType.complete], ofItemAtPath: directory, protectedBy: bed.keybag)
        let attributes = try files.attributesOfItem(atPath: directory, protectedBy: bed.keybag)
        #expect((attributes[.protectionKey] as? FileProtectionType)?.rawValue == FileProtectionType.complete.rawValue)
        try Self.data.write(to: bed.path("f").url, protectedBy: bed.keybag)
        #expect(try ProtectedFileInfo(of: bed.path("f")).protectionClass == .complete)
    }

    /// What iOS has and we do not, and what nobody has.
    @Test(arguments: ["NSFileProtectionCompleteWhenUserInactive", "complete", "", "NSFileProtectionCompleteX"])
    func anUnknownClassChangesNothing(_ name: String) throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", Array(Self.data))
        try path.setMode(0o644)
        let values: [Any] = [name, FileProtectionType(rawValue: name), 4, Date()]
        for value in values {
            let attributes: [FileAttributeKey: Any] = [.protectionKey: value, .posixPermissions: 0o600]
            expectCocoa(.featureUnsupported, "unknownClass") {
                try files.setAttributes(attributes, ofItemAtPath: path.string, protectedBy: bed.keybag)
            }
            expectCocoa(.featureUnsupported, "unknownClass") {
                try files.createFile(
                    atPath: bed.path("g").string, contents: nil, attributes: attributes, protectedBy: bed.keybag)
            }
        }
        #expect(try path.contents() == Array(Self.data))
        #expect(try path.mode() == 0o644)
        #expect(try bed.names() == ["f"])
    }

    @Test func whileLockedNothingChangesAndTheErrorHasTheFacts() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1])
        try path.setMode(0o644)
        try bed.keybag.lock()
        let error = expectCocoa(.fileWriteNoPermission, "locked") {
            try files.setAttributes(
                [.protectionKey: FileProtectionType.none, .posixPermissions: 0o600], ofItemAtPath: path.string,
                protectedBy: bed.keybag)
        }
        #expect(try path.mode() == 0o644)
        let facts = try #require(error?.userInfo)
        #expect(facts[ProtectionErrorKey.state] as? ProtectionState == .locked)
        #expect(facts[ProtectionErrorKey.protectionClass] as? ProtectionClass == .complete)
        #expect(facts[ProtectionErrorKey.operation] as? AttemptedOperation == .changeClass)
        let since = try #require(facts[ProtectionErrorKey.since] as? Date)
        #expect(abs(since.timeIntervalSinceNow) < 600)
        #expect(facts[ProtectionErrorKey.remedy] as? Remedy == .unlock)
        #expect(facts[ProtectionErrorKey.waitingHelps] as? Bool == true)
        #expect(error?.dataProtectionError?.errno.rawValue == 126)
        let missing = expectCocoa(.fileReadCorruptFile, "notProtected") {
            _ = try Data(contentsOf: bed.makePlain("p", [1]).url, protectedBy: bed.keybag)
        }
        #expect(missing?.userInfo[ProtectionErrorKey.waitingHelps] as? Bool == false)
    }

    @Test func attributesOfDamagedAndForeignFilesAreErrors() throws {
        let bed = try FileTestBed()
        let other = try FileTestBed()
        let foreign = try other.make("f", .none)
        expectCocoa(.fileReadNoPermission, "foreignKeybag") {
            _ = try files.attributesOfItem(atPath: foreign.string, protectedBy: bed.keybag)
        }
        let damaged = try bed.makePlain("d", Array(bed.make("e", .none).contents().prefix(100)))
        expectCocoa(.fileReadCorruptFile, "damaged") {
            _ = try files.attributesOfItem(atPath: damaged.string, protectedBy: bed.keybag)
        }
    }

    @Test(arguments: types) func createFileHonoursItsClass(_ type: FileProtectionType, _ its: ProtectionClass) throws {
        let bed = try FileTestBed()
        let path = bed.path("f")
        for contents in [nil, Self.data, Data(repeating: 1, count: 300_000)] {
            let isMade = try files.createFile(
                atPath: path.string, contents: contents, attributes: [.protectionKey: type, .posixPermissions: 0o640],
                protectedBy: bed.keybag)
            #expect(isMade)
            #expect(try ProtectedFileInfo(of: path).protectionClass == its)
            #expect(try path.mode() == 0o640)
            #expect(try files.contents(atPath: path.string, protectedBy: bed.keybag) == contents ?? Data())
        }
        #expect(try files.createFile(atPath: path.string, contents: Self.data, protectedBy: bed.keybag))
        #expect(try ProtectedFileInfo(of: path).protectionClass == its.inherited, "of the file that is replaced")
    }

    @Test func createFileSaysWhyNot() throws {
        let bed = try FileTestBed(state: .locked)
        let attributes = [FileAttributeKey.protectionKey: FileProtectionType.complete]
        expectCocoa(.fileWriteNoPermission, "locked") {
            try files.createFile(
                atPath: bed.path("f").string, contents: Self.data, attributes: attributes, protectedBy: bed.keybag)
        }
        expectCocoa(.fileNoSuchFile, "system") {
            try files.createFile(atPath: bed.path("no/f").string, contents: nil, protectedBy: bed.keybag)
        }
        #expect(try bed.names() == [])
    }

    @Test func contentsIsNilOnlyWhereThereIsNoFile() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1, 2]).string
        #expect(try files.contents(atPath: path, protectedBy: bed.keybag) == Data([1, 2]))
        #expect(try files.contents(atPath: bed.path("missing").string, protectedBy: bed.keybag) == nil)
        let plain = try bed.makePlain("p", [1]).string
        expectCocoa(.fileReadCorruptFile, "notProtected") {
            _ = try files.contents(atPath: plain, protectedBy: bed.keybag)
        }
        try bed.keybag.lock()
        expectCocoa(.fileReadNoPermission, "locked") { _ = try files.contents(atPath: path, protectedBy: bed.keybag) }
    }
}
