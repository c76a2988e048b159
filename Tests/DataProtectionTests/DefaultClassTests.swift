import Foundation
import Testing

@testable import DataProtection
@testable import ProtectedFiles

/// Which class a new file gets: one function, one table.
@Suite struct DefaultClassTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let sources: DefaultClass
        let result: ProtectionClass
        var wasRaised = false
        var testDescription: String { "\(sources) gives \(result)" }
    }

    private static func proven(_ protectionClass: ProtectionClass) -> InheritedClass {
        InheritedClass(claimed: protectionClass, isAuthentic: true)
    }
    private static func claimed(_ protectionClass: ProtectionClass) -> InheritedClass {
        InheritedClass(claimed: protectionClass, isAuthentic: false)
    }

    private static func refuted(_ protectionClass: ProtectionClass) -> InheritedClass {
        InheritedClass(claimed: protectionClass, isAuthentic: false, isRefuted: true)
    }

    private static let rows: [Row] = [
        Row(sources: DefaultClass(), result: .completeUntilFirstUserAuthentication),
        Row(sources: DefaultClass(user: .complete), result: .complete),
        Row(
            sources: DefaultClass(user: ProtectionClass.none, fallback: .complete),
            result: .completeUntilFirstUserAuthentication, wasRaised: true),
        Row(sources: DefaultClass(program: .completeUnlessOpen, user: .complete), result: .completeUnlessOpen),
        Row(sources: DefaultClass(program: ProtectionClass.none), result: .none),
        Row(
            sources: DefaultClass(directory: "complete", program: .completeUnlessOpen, user: ProtectionClass.none),
            result: .complete),
        Row(sources: DefaultClass(directory: "unless-open", program: .complete), result: .completeUnlessOpen),
        Row(sources: DefaultClass(directory: "NSFileProtectionComplete"), result: .complete),
        Row(
            sources: DefaultClass(directory: "none", program: .complete), result: .completeUntilFirstUserAuthentication,
            wasRaised: true),
        Row(
            sources: DefaultClass(directory: "rubbish"), result: .completeUntilFirstUserAuthentication, wasRaised: true),
        Row(sources: DefaultClass(directory: ""), result: .completeUntilFirstUserAuthentication, wasRaised: true),
        Row(sources: DefaultClass(replaced: proven(.complete), directory: "first-unlock"), result: .complete),
        Row(
            sources: DefaultClass(replaced: proven(.completeUntilFirstUserAuthentication), program: .complete),
            result: .completeUntilFirstUserAuthentication),
        Row(
            sources: DefaultClass(
                explicit: ProtectionClass.none, replaced: proven(.complete), directory: "complete",
                program: .complete, user: .complete), result: .none),
        // What commands take, where the library takes class C: only for a new name, and only if nothing else says one.
        Row(sources: DefaultClass(fallback: .complete), result: .complete),
        Row(
            sources: DefaultClass(user: .completeUntilFirstUserAuthentication, fallback: .complete),
            result: .completeUntilFirstUserAuthentication),
        Row(sources: DefaultClass(directory: "unless-open", fallback: .complete), result: .completeUnlessOpen),
        Row(
            sources: DefaultClass(replaced: claimed(.completeUnlessOpen), fallback: .complete),
            result: .completeUnlessOpen),
        // None is never inherited, not even if it is proved.
        Row(sources: DefaultClass(replaced: proven(.none), fallback: .complete), result: .complete),
        Row(
            sources: DefaultClass(
                replaced: proven(.none), user: .completeUntilFirstUserAuthentication, fallback: .complete),
            result: .completeUntilFirstUserAuthentication),
        // Nothing can be said of it before an unlock.
        Row(
            sources: DefaultClass(replaced: claimed(.none), fallback: .complete),
            result: .completeUntilFirstUserAuthentication),
        // What is refuted counts only if it is stronger than the class of a new name.
        Row(sources: DefaultClass(replaced: refuted(.none), fallback: .complete), result: .complete),
        Row(sources: DefaultClass(replaced: refuted(.completeUnlessOpen), fallback: .complete), result: .complete),
        Row(sources: DefaultClass(replaced: refuted(.completeUnlessOpen)), result: .completeUnlessOpen),
        Row(sources: DefaultClass(replaced: refuted(.none)), result: .completeUntilFirstUserAuthentication),
        Row(
            sources: DefaultClass(replaced: refuted(.none), directory: "unless-open", fallback: .complete),
            result: .completeUnlessOpen),
        // None is never inherited.
        Row(sources: DefaultClass(replaced: proven(.none)), result: .completeUntilFirstUserAuthentication),
        Row(sources: DefaultClass(replaced: proven(.none), directory: "complete"), result: .complete),
        // A class that nothing proves counts only if it is the stronger one.
        Row(
            sources: DefaultClass(replaced: claimed(.completeUntilFirstUserAuthentication), program: .complete),
            result: .complete),
        Row(sources: DefaultClass(replaced: claimed(.complete), directory: "unless-open"), result: .complete),
        Row(sources: DefaultClass(replaced: claimed(.none), directory: "unless-open"), result: .completeUnlessOpen),
        Row(sources: DefaultClass(explicit: .complete, directory: "none"), result: .complete),
    ]

    @Test(arguments: rows)
    func resolves(_ row: Row) {
        let resolved = row.sources.resolve()
        #expect(resolved.protectionClass == row.result)
        switch resolved.rule {
        case .directoryRaised, .configurationRaised: #expect(row.wasRaised)
        default: #expect(!row.wasRaised)
        }
    }

    @Test func ofAProgram() throws {
        let bed = try FileTestBed()
        bed.keybag.defaultProtection = .of(.completeUnlessOpen)
        #expect(try newClass(bed, "a") == .completeUnlessOpen)
        try bed.keybag.setProtection(.complete, ofItemAt: bed.directory)
        #expect(try newClass(bed, "b") == .complete)
        try Data([1]).write(to: bed.path("a").url, options: .atomic, protectedBy: bed.keybag)
        #expect(try ProtectedFileInfo(of: bed.path("a")).protectionClass == .completeUnlessOpen, "it was replaced")
    }

    /// Whoever can write to a file while it is locked cannot make its next version weaker.
    @Test(arguments: [ProtectionClass.completeUntilFirstUserAuthentication, .none])
    func oneByteLowersNoClass(_ forged: ProtectionClass) throws {
        let bed = try FileTestBed()
        let path = try bed.makeWhole("f", .complete, [1, 2, 3])
        try bed.keybag.lock()
        try bed.forgeClass(of: path, forged)
        try bed.enter(.unlocked)
        #expect(try ProtectedFileInfo(of: path).protectionClass == forged, "the head is well formed")
        try Data([4]).write(to: path.url, options: .atomic, protectedBy: bed.keybag)
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
    }

    private func replace(_ path: FilePath, _ keybag: Keybag) throws -> ProtectionClass {
        let writer = try ProtectedFileWriter(path, keybag: keybag)
        try writer.finish()
        return try ProtectedFileInfo(of: path).protectionClass
    }

    /// A file that its own class key does not open is replaced by one of the class that a new name gets.
    @Test(arguments: [ProtectionClass.completeUntilFirstUserAuthentication, .none])
    func aBrokenWrapLowersNoClass(_ forged: ProtectionClass) throws {
        let bed = try FileTestBed()
        bed.keybag.fallbackProtection = .complete
        let path = try bed.makeWhole("f", .complete, [1, 2, 3])
        try bed.keybag.lock()
        try bed.forgeClass(of: path, forged, breakingWrap: true)
        expectError("locked") { _ = try replace(path, bed.keybag) }
        try bed.enter(.unlocked)
        #expect(try replace(path, bed.keybag) == .complete)
    }

    /// Only the public key of class B is needed to make a file that opens.
    @Test func aPlantedFileLowersNoClass() throws {
        let bed = try FileTestBed()
        bed.keybag.fallbackProtection = .complete
        #expect(try replace(bed.makePlanted("f"), bed.keybag) == .complete)
    }

    /// While locked nothing can prove that a file is `unless-open`, and replacing it must work all the same.
    @Test(arguments: [ProtectionState.beforeFirstUnlock, .locked, .unlocked])
    func unlessOpenStays(_ state: ProtectionState) throws {
        let bed = try FileTestBed()
        bed.keybag.fallbackProtection = .complete
        let path = try bed.makeWhole("f", .completeUnlessOpen, [1, 2, 3])
        try bed.enter(state)
        #expect(try replace(path, bed.keybag) == .completeUnlessOpen)
    }

    @Test func noneOfADirectoryIsRaised() throws {
        let bed = try FileTestBed()
        try bed.keybag.setProtection(.none, ofItemAt: bed.directory)
        #expect(try newClass(bed, "a") == .completeUntilFirstUserAuthentication)
        #expect(bed.bag.warnings.unusual == [.directoryDefaultRaised(bed.directory, value: "none")])
    }

    /// Who may write to a directory of somebody else's name must not decide what class my files get.
    @Test func directoriesOfOthersAreIgnored() throws {
        guard geteuid() == 0 else { return print("skipped: only root can give a directory away") }
        let bed = try FileTestBed()
        try bed.keybag.setProtection(.complete, ofItemAt: bed.directory)
        #expect(chown(bed.directory.string, 65534, 65534) == 0)
        #expect(try newClass(bed, "a") == .completeUntilFirstUserAuthentication)
    }

    @Test func replacingPlaintextTakesTheDirectorysDefault() throws {
        let bed = try FileTestBed()
        try bed.keybag.setProtection(.complete, ofItemAt: bed.directory)
        try bed.makePlain("a", [1, 2, 3])
        #expect(try newClass(bed, "a") == .complete)
    }

    private func newClass(_ bed: FileTestBed, _ name: String) throws -> ProtectionClass {
        try Data([1]).write(to: bed.path(name).url, protectedBy: bed.keybag)
        return try ProtectedFileInfo(of: bed.path(name)).protectionClass
    }
}

/// Which rule chose the class of a new file.
@Suite struct ClassChoiceTests {
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    @Test func rules() throws {
        let path = bed.path("f")
        #expect(try ClassChoice(forNewFileAt: path).rule == .fallback)
        try bed.keybag.setProtection(.completeUnlessOpen, ofItemAt: bed.directory)
        #expect(try ClassChoice(forNewFileAt: path).rule == .directory)
        #expect(try ClassChoice(forNewFilesIn: bed.directory).protectionClass == .completeUnlessOpen)
        try bed.makePlain("f", [1])
        #expect(try ClassChoice(forNewFileAt: path).rule == .directory, "plaintext has no class to keep")
        try bed.keybag.protect(path, as: .complete)
        #expect(try ClassChoice(forNewFileAt: path).rule == .replacedFile)
        try bed.keybag.setProtection(.none, ofItemAt: bed.directory)
        #expect(try ClassChoice(forNewFilesIn: bed.directory).rule == .directoryRaised(value: "none"))
        let rules: [(DefaultClass, ClassChoice.Rule)] = [
            (
                DefaultClass(explicit: .complete, replaced: InheritedClass(claimed: .complete, isAuthentic: true)),
                .explicit
            ),
            (DefaultClass(program: .complete, user: .complete), .program),
            (DefaultClass(user: .complete), .configuration),
        ]
        for (sources, rule) in rules { #expect(sources.resolve().rule == rule) }
    }

    @Test func aForeignDirectorysDefaultIsNamed() throws {
        guard geteuid() == 0 else { return print("skipped: only root can give a directory away") }
        try bed.keybag.setProtection(.complete, ofItemAt: bed.directory)
        #expect(chown(bed.directory.string, 65534, 65534) == 0)
        let choice = try ClassChoice(forNewFilesIn: bed.directory)
        #expect(choice.rule == .fallback && choice.ignoredDirectoryDefault == "complete")
    }

    /// What is no regular file is refused as that, whatever is asked of it.
    @Test func notRegular() throws {
        let keybag = bed.keybag
        let socket = bed.path("socket")
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: socket.string.utf8.prefix($0.count - 1)) }
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard bound == 0 else { return print("skipped: no socket could be made: \(errno)") }
        for path in [socket, bed.directory] {
            expectError("notRegularFile") { _ = try ProtectedFile.open(path, .readWrite, keybag: keybag) }
            expectError("notRegularFile") { _ = try ProtectedFile.open(path, keybag: keybag) }
            expectError("notRegularFile") { _ = try ProtectedFileWriter(path, keybag: keybag) }
            expectError("notRegularFile") { _ = try ProtectedFileInfo(of: path) }
        }
        expectError("notRegularFile") { try keybag.setProtection(.none, ofItemAt: socket) }
    }
}
