import Foundation
import Testing

@testable import DataProtection

/// Directories inherit the default class of the nearest directory above that has one.
@Suite struct InheritedDefaultTests {
    private let bed: FileTestBed
    private let files = FileManager.default
    init() throws { bed = try FileTestBed() }

    @Test("A directory that was made without the attribute follows the nearest one above that has it")
    func nearestDecides() throws {
        try makeDirectories("a/b/c")
        try bed.keybag.setProtection(.complete, ofItemAt: bed.path("a"))
        #expect(try newClass("a/b/c/new") == .complete)
        let choice = try ClassChoice(forNewFilesIn: bed.path("a/b/c"))
        #expect(choice.rule == .directory)
        #expect(choice.directory == (try bed.path("a").resolved()))
        #expect(Keybag.defaultProtection(of: bed.path("a/b")) == nil, "it has none of its own")
        try bed.keybag.setProtection(.completeUnlessOpen, ofItemAt: bed.path("a/b"))
        #expect(try newClass("a/b/c/other") == .completeUnlessOpen)
        #expect(try newClass("a/other") == .complete)
        #expect(try newClass("outside") == .completeUntilFirstUserAuthentication)
    }

    @Test("A default of none is raised below too, and the warning names the directory that has it")
    func noneIsRaised() throws {
        try makeDirectories("a/b")
        try bed.keybag.setProtection(.none, ofItemAt: bed.path("a"))
        #expect(try newClass("a/b/new") == .completeUntilFirstUserAuthentication)
        let place = try bed.path("a").resolved()
        #expect(bed.bag.warnings.unusual == [.directoryDefaultRaised(place, value: "none")])
    }

    @Test("The directory where a link leads decides, and those above it, not the directory that the link is in")
    func linksAreFollowed() throws {
        try makeDirectories("marked")
        try makeDirectories("elsewhere/inner")
        try bed.keybag.setProtection(.complete, ofItemAt: bed.path("marked"))
        try bed.path("marked/link").makeSymbolicLink(to: "../elsewhere/inner")
        #expect(try newClass("marked/link/new") == .completeUntilFirstUserAuthentication)
        try bed.path("elsewhere/back").makeSymbolicLink(to: "../marked")
        #expect(try newClass("elsewhere/back/new") == .complete)
    }

    @Test("A directory that may be entered but not read does not hide the default above it")
    func anUnreadableDirectory() throws {
        try makeDirectories("a/b")
        try bed.keybag.setProtection(.complete, ofItemAt: bed.path("a"))
        try bed.path("a/b").setMode(0o300)
        defer { try? bed.path("a/b").setMode(0o700) }
        #expect(try ClassChoice(forNewFilesIn: bed.path("a/b")).protectionClass == .complete)
    }

    @Test("The directory of another user ends the search", .enabled(if: geteuid() == 0, "only root can give one away"))
    func anotherUsersDirectory() throws {
        try makeDirectories("a/theirs/mine")
        try bed.keybag.setProtection(.complete, ofItemAt: bed.path("a"))
        #expect(chown(bed.path("a/theirs").string, 65534, 65534) == 0)
        #expect(try ClassChoice(forNewFilesIn: bed.path("a/theirs/mine")).rule == .fallback)
        try bed.path("a/theirs").setMode(0o755)
        try ExtendedAttributes.set(DirectoryDefault.attribute, to: Array("complete".utf8), of: bed.path("a/theirs"))
        let choice = try ClassChoice(forNewFilesIn: bed.path("a/theirs/mine"))
        #expect(choice.rule == .fallback && choice.ignoredDirectoryDefault == "complete")
        #expect(choice.directory == (try bed.path("a/theirs").resolved()))
    }

    @Test("A copy of a tree into a marked directory gets its class, while it still has its hidden name too")
    func copiesInherit() throws {
        try makeDirectories("from/inner")
        try bed.makePlain("from/inner/plain", [1])
        try makeDirectories("to")
        try bed.keybag.setProtection(.complete, ofItemAt: bed.path("to"))
        let copy = bed.path("to/copy")
        try files.copyItem(atPath: bed.path("from").string, toPath: copy.string, protectedBy: bed.keybag)
        #expect(try ProtectedFileInfo(of: copy.appending("inner/plain")).protectionClass == .complete)
    }

    // MARK: createDirectory

    @Test("createDirectory sets the class that it is given, on every directory that it makes")
    func createDirectoryWithAClass() throws {
        for isLocked in [false, true] {
            if isLocked { try bed.keybag.lock() }
            let name = isLocked ? "locked" : "unlocked"
            try files.createDirectory(
                atPath: bed.path("\(name)/b").string, withIntermediateDirectories: true,
                attributes: [.protectionKey: FileProtectionType.complete, .posixPermissions: 0o750],
                protectedBy: bed.keybag)
            for path in [bed.path(name), bed.path("\(name)/b")] {
                #expect(Keybag.defaultProtection(of: path) == .complete)
                #expect(try path.mode() == 0o750)
            }
        }
    }

    @Test("createDirectory without a class keeps the inherited one, wherever the directory is moved")
    func createDirectoryInherits() throws {
        try makeDirectories("a")
        try bed.keybag.setProtection(.complete, ofItemAt: bed.path("a"))
        try files.createDirectory(
            at: bed.path("a/b").url, withIntermediateDirectories: false, protectedBy: bed.keybag)
        try files.moveItem(atPath: bed.path("a/b").string, toPath: bed.path("b").string)
        #expect(try newClass("b/new") == .complete)
        try files.createDirectory(at: bed.path("c").url, withIntermediateDirectories: false, protectedBy: bed.keybag)
        #expect(Keybag.defaultProtection(of: bed.path("c")) == nil, "nothing to inherit")
    }

    @Test("createDirectory changes no directory that is there, and makes none for an unknown class")
    func createDirectoryOfWhatIsThere() throws {
        try makeDirectories("a")
        let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
        try files.createDirectory(
            atPath: bed.path("a").string, withIntermediateDirectories: true, attributes: attributes,
            protectedBy: bed.keybag)
        #expect(Keybag.defaultProtection(of: bed.path("a")) == nil)
        #expect(throws: CocoaError.self) {
            try files.createDirectory(
                atPath: bed.path("a").string, withIntermediateDirectories: false, attributes: attributes,
                protectedBy: bed.keybag)
        }
        expectCocoa(.featureUnsupported, "unknownClass") {
            try files.createDirectory(
                atPath: bed.path("b").string, withIntermediateDirectories: false,
                attributes: [.protectionKey: "NSFileProtectionCompleteX"], protectedBy: bed.keybag)
        }
        #expect(try bed.names() == ["a"])
    }

    // MARK: what these tests do

    private func makeDirectories(_ name: String) throws {
        try files.createDirectory(atPath: bed.path(name).string, withIntermediateDirectories: true)
    }

    private func newClass(_ name: String) throws -> ProtectionClass {
        try Data([1]).write(to: bed.path(name).url, protectedBy: bed.keybag)
        return try ProtectedFileInfo(of: bed.path(name)).protectionClass
    }
}
