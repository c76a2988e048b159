import Foundation
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// What real trees have in them, and what must not make an upgrade stumble.
@Suite struct UpgradeEdgeTests {
    private static let text = [UInt8](repeating: 0x63, count: 5000)

    /// A name of 255 bytes leaves no room for a longer one beside it; others are no text.
    @Test func names() async throws {
        let tree = try UpgradeTree()
        let names = [
            [UInt8](repeating: 0x61, count: 255), [UInt8](repeating: 0xFF, count: 255), Array("new\nline".utf8),
            Array("e\u{301}".utf8), Array(String(repeating: "\u{1F469}\u{200D}", count: 36).utf8), [0x5C],
            [0x2D, 0x2D],
        ]
        for name in names { try tree.bed.directory.appending(component(name)).overwrite(Self.text) }
        let summary = try await tree.upgraded(to: .complete)
        #expect(summary.failures == [])
        #expect(summary.converted == names.count)
        for name in names {
            let path = tree.bed.directory.appending(component(name))
            #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
            #expect(try tree.bed.read(path) == Self.text)
        }
        #expect(try tree.strays() == [])
    }

    private func component(_ bytes: [UInt8]) -> FilePath.Component { FilePath(bytes: bytes).lastComponent! }

    /// A directory's default ACL is for what is made in it; what replaces a file has that file's, or none.
    @Test(.enabled(if: hasSetfacl, "there is no setfacl(1) here"))
    func aDefaultACLIsNotInherited() async throws {
        let tree = try UpgradeTree()
        try tree.plain(["plain", "own"], Self.text)
        let (plain, own) = (tree.bed.path("plain"), tree.bed.path("own"))
        try #require(chmod(plain.string, 0o640) == 0)
        try #require(try command("setfacl", "-m", "u:65534:rw", own.string))
        try #require(try command("setfacl", "-d", "-m", "u:65533:rwx", tree.bed.directory.string))
        let before = ExtendedAttributes.get(ExtendedAttributes.accessACL, of: own)
        #expect(try await tree.upgraded(to: .complete).converted == 2)
        #expect(ExtendedAttributes.get(ExtendedAttributes.accessACL, of: plain) == nil)
        #expect(try #require(try plain.status()).st_mode & 0o7777 == 0o640)
        #expect(before != nil && ExtendedAttributes.get(ExtendedAttributes.accessACL, of: own) == before)
    }

    /// Neither the look at a file nor its conversion is a use of it.
    @Test func timesStay() async throws {
        let tree = try UpgradeTree()
        try tree.plain(["f"], Self.text)
        let path = tree.bed.path("f")
        var times = [timespec(tv_sec: 1000, tv_nsec: 1), timespec(tv_sec: 1_000_000_000, tv_nsec: 999_999_999)]
        #expect(utimensat(AT_FDCWD, path.string, &times, 0) == 0)
        for expected in [1, 0] {
            #expect(try await tree.upgraded(to: .complete).converted == expected)
            let status = try #require(try path.status())
            #expect(status.st_atim.tv_sec == 1000 && status.st_atim.tv_nsec == 1)
            #expect(status.st_mtim.tv_sec == 1_000_000_000 && status.st_mtim.tv_nsec == 999_999_999)
        }
    }

    /// Where names cannot be taken away none is made.
    @Test(.enabled(if: hasFixedFiles, "chattr(1) does nothing here"), arguments: ["+i", "+a"])
    func immutableAndAppendOnly(_ flag: String) async throws {
        let tree = try UpgradeTree()
        try tree.plain(["fixed", "free", "d/f"], Self.text)
        let fixed = ["fixed", "d"].map { tree.bed.path($0).string }
        try #require(try command("chattr", [flag] + fixed))
        defer { _ = try? command("chattr", ["-i", "-a"] + fixed) }
        let summary = try await tree.upgraded(to: .complete)
        #expect(summary.converted == 1)
        // The default class of the directory too.
        #expect(summary.failures.map { $0.path.lastComponent! } == ["d", "f", "fixed"])
        #expect(summary.failures.allSatisfy { $0.error.errno == .notPermitted })
        for name in ["fixed", "d/f"] { #expect(try tree.bed.path(name).contents() == Self.text) }
        #expect(try tree.strays() == [])
    }

    /// Deeper than a path can be: a dry run counts what the run then protects.
    @Test func aDeepTree() async throws {
        let tree = try UpgradeTree()
        try tree.plain(["f"], Self.text)
        let name = component([UInt8](repeating: 0x64, count: 250))
        do {
            var directory = try LowerDirectory(tree.bed.directory)
            for depth in 0..<17 {
                #expect(mkdirat(directory.descriptor, name.string, 0o700) == 0)
                directory = try directory.directory(name)
                guard depth == 0 || depth == 16 else { continue }
                close(openat(directory.descriptor, "f", O_WRONLY | O_CREAT, 0o600))
            }
        }
        var options = UpgradeOptions()
        options.isDryRun = true
        let foreseen = try await tree.upgraded(to: .complete, options: options)
        let summary = try await tree.upgraded(to: .complete)
        #expect(foreseen.converted == 3 && summary.converted == 3)
        #expect(summary.failures.isEmpty, "\(summary.failures)")
        #expect(try await tree.upgraded(to: .complete).unchanged == 3)
        #expect(try command("rm", ["-rf", tree.bed.directory.appending(name).string]))
    }

    /// A format that this version does not know, newer or older, is named and never touched.
    @Test func anotherFormat() async throws {
        let tree = try UpgradeTree()
        try tree.bed.make("f", .none, Self.text)
        let path = tree.bed.path("f")
        var bytes = try path.contents()
        bytes[8] = 9
        bytes.replaceSubrange(4064..<4096, with: try Digest.sha256(Array(bytes[..<4064])))
        try path.overwrite(bytes)
        let summary = try await tree.upgraded(to: .complete)
        #expect(summary.failures.map(\.error.caseName) == ["unsupported"])
        #expect(try path.contents() == bytes)
    }

    /// Where nothing is to do a file costs one read, of its head.
    @Test(.enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"))
    func oneReadAFile() async throws {
        let tree = try UpgradeTree()
        try tree.plain((0..<40).map { "\($0)" }, [UInt8](repeating: 1, count: 300_000))
        #expect(try await tree.upgraded(to: .complete).converted == 40)
        let trace = ScratchDirectory()
        let calls = "trace=read,pread64,readv,preadv,preadv2,mmap"
        // One log per thread (-ff): in a shared one strace cuts a call in two when another thread calls meanwhile.
        let worker = try StormProcess(
            tree.bed.keybag.directory, ["upgrade-once", "0", "0", tree.bed.directory.string],
            wrapper: ["strace", "-qq", "-ff", "-y", "-o", trace.path.appending("log").string, "-e", calls])
        #expect(try worker.line() == "0 40 0 0")
        let reads = try FileManager.default.contentsOfDirectory(atPath: trace.path.string).flatMap { log in
            String(decoding: try trace.path.appending(log).contents(), as: UTF8.self).split(separator: "\n")
                .filter { $0.contains("<\(tree.bed.directory.string)/") }
        }
        #expect(reads.count == 40, "\(reads.prefix(4))")
        #expect(reads.filter { !$0.hasSuffix("= 8192") } == [])
    }

    // MARK: what this machine has

    private static let hasSetfacl = (try? command("setfacl", "--version")) == true
    /// By an attempt, as an ordinary user, a container and some file systems have none.
    private static let hasFixedFiles: Bool = {
        let scratch = ScratchDirectory()
        let file = scratch.path.appending("f")
        guard (try? file.overwrite([])) != nil, (try? command("chattr", "+i", file.string)) == true else {
            return false
        }
        return (try? command("chattr", "-i", file.string)) == true
    }()
}

/// Whether a command ends well.
@discardableResult
private func command(_ name: String, _ arguments: String...) throws -> Bool { try command(name, arguments) }

@discardableResult
private func command(_ name: String, _ arguments: [String]) throws -> Bool {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [name] + arguments
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    return process.terminationStatus == 0
}
