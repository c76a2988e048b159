import Foundation
import Testing

@testable import DataProtection

/// Foundation's words: `Data`, `CocoaError`, and what is done with plaintext.
@Suite struct FoundationTests {
    private static let data = Data("as Foundation has it".utf8)

    static let options: [(Data.WritingOptions, ProtectionClass)] = [
        (.completeFileProtection, .complete), (.completeFileProtectionUnlessOpen, .completeUnlessOpen),
        (.completeFileProtectionUntilFirstUserAuthentication, .completeUntilFirstUserAuthentication),
        (.noFileProtection, .none),
    ]

    @Test(arguments: options, [0, 3584, 3585, 300_000])
    func writesAndReads(_ option: (Data.WritingOptions, ProtectionClass), _ size: Int) throws {
        let bed = try FileTestBed()
        let path = bed.path("f")
        for byte in UInt8(1)...3 {
            let data = Data(repeating: byte, count: size)
            let options: Data.WritingOptions = byte == 2 ? option.0 : option.0.union(.atomic)
            try data.write(to: path.url, options: options, protectedBy: bed.keybag)
            #expect(try Data(contentsOf: path.url, protectedBy: bed.keybag) == data)
            #expect(try ProtectedFileInfo(of: path).protectionClass == option.1)
            try StoredFile(path).expectClosed()
        }
        #expect(try bed.names() == ["f"])
    }

    @Test("A write that fails lowers no class: the old content keeps the class it had")
    func failedWriteKeepsTheClass() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, Array(Self.data))
        // The write fails once the file is open: another handle is writing.
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([0x41], at: 0)
        expectCocoa(.fileWriteUnknown, "busy") {
            try Data([1]).write(to: path.url, options: .noFileProtection, protectedBy: bed.keybag)
        }
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
        try writer.close()
        #expect(try bed.read(path) == [0x41] + Array(Self.data).dropFirst())
        try Data([1]).write(to: path.url, options: .noFileProtection, protectedBy: bed.keybag)
        #expect(try ProtectedFileInfo(of: path).protectionClass == .none && bed.read(path) == [1])
        try Data([2]).write(to: path.url, options: .completeFileProtection, protectedBy: bed.keybag)
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete && bed.read(path) == [2])
        try StoredFile(path).expectClosed()
    }

    @Test func codesOfCocoa() throws {
        let bed = try FileTestBed()
        let url = bed.path("f").url
        try Self.data.write(to: url, options: .completeFileProtection, protectedBy: bed.keybag)
        try bed.keybag.lock()
        #expect(CocoaError.Code.fileReadNoPermission.rawValue == 257)
        #expect(CocoaError.Code.fileWriteNoPermission.rawValue == 513)
        expectCocoa(.fileReadNoPermission, "locked") { _ = try Data(contentsOf: url, protectedBy: bed.keybag) }
        expectCocoa(.fileWriteNoPermission, "locked") { try Self.data.write(to: url, protectedBy: bed.keybag) }
        expectCocoa(.fileWriteNoPermission, "locked") {
            try Self.data.write(to: url, options: .atomic, protectedBy: bed.keybag)
        }
        expectCocoa(.fileWriteNoPermission, "locked") { try bed.keybag.setProtection(.none, ofItemAt: url) }
        let missing = bed.path("missing").url
        expectCocoa(.fileReadNoSuchFile, "system") { _ = try Data(contentsOf: missing, protectedBy: bed.keybag) }
        expectCocoa(.fileReadNoPermission, "foreignKeybag") {
            let other = try FileTestBed()
            _ = try Data(contentsOf: other.make("f", .none).url, protectedBy: bed.keybag)
        }
        try bed.enter(.unlocked)
        expectCocoa(.fileWriteFileExists, "exists") {
            try Self.data.write(to: url, options: .withoutOverwriting, protectedBy: bed.keybag)
        }
        var bytes = try bed.path("f").contents()
        bytes[100] ^= 1
        try bed.path("f").overwrite(bytes)
        expectCocoa(.fileReadCorruptFile, "damaged") { _ = try Data(contentsOf: url, protectedBy: bed.keybag) }
        #expect(try bed.names() == ["f"])
    }

    /// What iOS 17 has as `.completeFileProtectionWhenUserInactive`, and bits that nobody has.
    @Test(arguments: [0x5000_0000, 0x6000_0000, 0xF000_0000] as [UInt])
    func aClassThatThereIsNotIsNoDefault(_ bits: UInt) throws {
        let bed = try FileTestBed()
        try Self.data.write(to: bed.path("f").url, options: .completeFileProtection, protectedBy: bed.keybag)
        for (name, options) in [("f", []), ("f", .atomic), ("g", [])] as [(String, Data.WritingOptions)] {
            expectCocoa(.featureUnsupported, "unknownClass") {
                try Data([1]).write(
                    to: bed.path(name).url, options: options.union(.init(rawValue: bits)), protectedBy: bed.keybag)
            }
        }
        #expect(try bed.names() == ["f"])
        #expect(try Data(contentsOf: bed.path("f").url, protectedBy: bed.keybag) == Self.data)
    }

    /// The codes that Foundation itself gives.
    @Test func namesThatCannotBe() throws {
        let bed = try FileTestBed()
        let url = bed.path(String(repeating: "n", count: 300)).url
        let reading = expectCocoa(.fileReadInvalidFileName, "system") {
            _ = try Data(contentsOf: url, protectedBy: bed.keybag)
        }
        #expect(reading?.userInfo["NSFilePath"] as? String == url.path)
        expectCocoa(.fileWriteInvalidFileName, "system") { try Self.data.write(to: url, protectedBy: bed.keybag) }
        expectCocoa(.fileNoSuchFile, "system") {
            try Self.data.write(to: bed.path("missing/f").url, protectedBy: bed.keybag)
        }
    }

    @Test func plaintextIsRefusedUnlessAskedFor() throws {
        let bed = try FileTestBed()
        for text in [Data(), Self.data, Data(repeating: 9, count: 10_000)] {
            let path = try bed.makePlain("f", Array(text))
            expectCocoa(.fileReadCorruptFile, "notProtected") {
                _ = try Data(contentsOf: path.url, protectedBy: bed.keybag)
            }
            #expect(try Data(contentsOf: path.url, protectedBy: bed.keybag, ifPlaintext: .read) == text)
            #expect(try path.contents() == Array(text))
            let upgraded = try Data(
                contentsOf: path.url, protectedBy: bed.keybag, ifPlaintext: .upgrade(to: .complete))
            #expect(upgraded == text)
            #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
        }
    }

    /// Something that begins like one of ours, or would but for its magic, is damaged and not plaintext.
    @Test func damagedIsNoPlaintext() throws {
        let bed = try FileTestBed()
        let whole = try bed.makeWhole("f", .none, Array(Self.data), isSmall: true).contents()
        var withoutMagic = whole
        withoutMagic[3] ^= 0x40
        for bytes in [Array(whole.prefix(1)), Array(whole.prefix(7)), Array(whole.prefix(4095)), withoutMagic] {
            let path = try bed.makePlain("g", bytes)
            for policy in [PlaintextPolicy.refuse, .read, .upgrade(to: .complete)] {
                expectCocoa(.fileReadCorruptFile, "damaged") {
                    _ = try Data(contentsOf: path.url, protectedBy: bed.keybag, ifPlaintext: policy)
                }
            }
            #expect(try path.contents() == bytes)
        }
    }

    @Test func lockedWriteLeavesNothing() throws {
        let bed = try FileTestBed(state: .locked)
        for options in [Data.WritingOptions.completeFileProtection, [.completeFileProtection, .atomic]] {
            expectCocoa(.fileWriteNoPermission, "locked") {
                try Self.data.write(to: bed.path("f").url, options: options, protectedBy: bed.keybag)
            }
        }
        #expect(try bed.names() == [])
    }

    /// rename(2) by way of a name beside it: also for names of 255 bytes, and of several bytes a letter.
    @Test(arguments: [
        String(repeating: "n", count: 255), String(repeating: "\u{540D}", count: 85),
        String(repeating: "\u{1F512}", count: 63),
    ])
    func longNames(_ name: String) throws {
        let bed = try FileTestBed()
        for _ in 0..<2 { try Self.data.write(to: bed.path(name).url, options: .atomic, protectedBy: bed.keybag) }
        #expect(try bed.names() == [name])
        #expect(try Data(contentsOf: bed.path(name).url, protectedBy: bed.keybag) == Self.data)
    }
}
