import Foundation
import ProtectionFormat
import SystemPackage
import Testing

@testable import DataProtection

/// Plaintext files become protected ones in place, and back: nothing else of them changes.
@Suite struct ConversionTests {
    private static let text = [UInt8](repeating: 0x63, count: 20_000)

    /// Mode, owner, times in nanoseconds, and extended attributes, ACLs among them.
    private struct Looks: Hashable {
        let mode, uid, gid: UInt32
        let times: [Int]
        let attributes: [String: [UInt8]]

        init(_ path: FilePath) throws {
            var status = Glibc.stat()
            guard lstat(path.string, &status) == 0 else { throw Errno(rawValue: errno) }
            (mode, uid, gid) = (status.st_mode, status.st_uid, status.st_gid)
            times = [status.st_mtim.tv_sec, status.st_mtim.tv_nsec]
            attributes = Dictionary(
                uniqueKeysWithValues: ["user.colour", "system.posix_acl_access"].compactMap { name in
                    ExtendedAttributes.get(name, of: path).map { (name, $0) }
                })
        }
    }

    @Test(arguments: [0, 1, 3584, 20_000, 262_143, 262_144, 1_100_000])
    func thereAndBack(_ size: Int) throws {
        let bed = try FileTestBed()
        let text = (0..<size).map { UInt8(truncatingIfNeeded: $0 / 7) }
        let path = try bed.makePlain("f", text)
        try path.setMode(0o640)
        #expect(setTimes(path) == 0)
        let before = try Looks(path)
        #expect(try bed.keybag.protect(path, as: .complete) == .converted)
        #expect(try Looks(path) == before)
        #expect(try bed.read(path) == text)
        try StoredFile(path).expectClosed()
        #expect(try bed.keybag.unprotect(path) == .converted)
        #expect(try Looks(path) == before)
        #expect(try path.contents() == text)
        #expect(try bed.names() == ["f"])
    }

    @Test("A class that a forged head only claims is not believed", arguments: [ProtectionClass.complete, .none])
    func claimedClass(_ wanted: ProtectionClass) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUntilFirstUserAuthentication, Self.text)
        try bed.forgeClass(of: path, .complete)
        let bytes = try path.contents()
        expectError("otherKey") { try bed.keybag.protect(path, as: wanted) }
        #expect(try path.contents() == bytes)
        try bed.enter(.locked)
        #expect(try bed.keybag.protect(path, as: wanted) == .unchanged, "while the class key is away, nobody can tell")
    }

    private func setTimes(_ path: FilePath) -> Int32 {
        let moment = timespec(tv_sec: 1_000_000_000, tv_nsec: 123_456_789)
        return utimensat(AT_FDCWD, path.string, [moment, moment], 0)
    }

    @Test func attributesStay() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", Self.text)
        try ExtendedAttributes.set("user.colour", to: Array("blue".utf8), of: path)
        let setfacl = Process()
        setfacl.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        setfacl.arguments = ["setfacl", "-m", "u:65534:r", path.string]
        try setfacl.run()
        setfacl.waitUntilExit()
        if setfacl.terminationStatus != 0 { print("skipped: ACL (setfacl is not here, or the file system has none)") }
        if geteuid() == 0 {
            #expect(chown(path.string, 65534, 65533) == 0)
        } else {
            print("skipped: owner (only root can give a file away)")
        }
        try path.setMode(0o4750)
        let before = try Looks(path)
        #expect(before.attributes["user.colour"] == Array("blue".utf8))
        try bed.keybag.protect(path, as: .completeUnlessOpen)
        #expect(try Looks(path) == before)
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        try bed.keybag.unprotect(path, allowsOtherOwner: true)
        let after = try Looks(path)
        #expect(after.attributes == before.attributes)
        #expect((after.mode, after.uid, after.gid) == (before.mode, before.uid, before.gid))
    }

    /// Whoever may read a protected file can copy it. Its plaintext would be the copy's owner's.
    @Test(.enabled(if: geteuid() == 0, "only root can give a file away"))
    func unprotectOfAnotherOwner() throws {
        let bed = try FileTestBed()
        let path = try bed.make("copy", .complete, Self.text)
        #expect(chown(path.string, 65534, 65533) == 0)
        let before = try path.contents()
        let error = expectError("ownedByAnother") { try bed.keybag.unprotect(path) }
        #expect(error == .because(FileFailure.ownedByAnother(path, uid: 65534)))
        #expect(try path.contents() == before)
        #expect(try bed.names() == ["copy"])
        #expect(try bed.keybag.unprotect(path, allowsOtherOwner: true) == .converted)
        #expect(try path.contents() == Self.text)
    }

    @Test func raisesAndLeavesAlone() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUntilFirstUserAuthentication, Self.text)
        #expect(try bed.keybag.protect(path, as: .none) == .unchanged)
        #expect(try bed.keybag.protect(path, as: .completeUntilFirstUserAuthentication) == .unchanged)
        #expect(try ProtectedFileInfo(of: path).protectionClass == .completeUntilFirstUserAuthentication)
        #expect(try bed.keybag.protect(path, as: .completeUnlessOpen) == .raised)
        #expect(try bed.keybag.protect(path, as: .complete) == .raised)
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
        #expect(try bed.read(path) == Self.text)
        let plain = try bed.makePlain("g", Self.text)
        #expect(try bed.keybag.unprotect(plain) == .unchanged)
    }

    @Test func refusesWhatHasOtherNames() throws {
        let bed = try FileTestBed()
        let plain = try bed.makePlain("plain", Self.text)
        let own = try bed.make("own", .none, Self.text)
        for target in [plain, own] {
            let link = bed.path("link")
            try link.makeSymbolicLink(to: target)
            expectError("notRegularFile") { try bed.keybag.protect(link, as: .complete) }
            expectError("notRegularFile") { try bed.keybag.unprotect(link) }
            try link.remove()
        }
        #expect(Glibc.link(plain.string, bed.path("second").string) == 0)
        #expect(Glibc.link(own.string, bed.path("other").string) == 0)
        expectError("hasHardLinks") { try bed.keybag.protect(plain, as: .complete) }
        expectError("hasHardLinks") { try bed.keybag.unprotect(own) }
        try bed.path("fifo").makeFIFO()
        for path in [bed.path("fifo"), bed.directory, FilePath("/dev/null")] {
            expectError("notRegularFile") { try bed.keybag.protect(path, as: .complete) }
            expectError("notRegularFile") { try bed.keybag.unprotect(path) }
        }
        expectError("system") { try bed.keybag.protect(bed.path("missing"), as: .complete) }
        #expect(try plain.contents() == Self.text)
        #expect(try bed.names() == ["fifo", "other", "own", "plain", "second"])
    }

    /// What an editor leaves of a protected file looks like plaintext: protected once more, nobody would look for the damage.
    @Test func refusesWhatWasProtectedBefore() async throws {
        let bed = try FileTestBed()
        let stored = try bed.makeWhole("own", .complete, Self.text).contents()
        let mangled: [(bytes: [UInt8], mangling: Mangling)] = [
            (stored.flatMap { $0 == 0x0A ? [0x0D, 0x0A] : [$0] }, .converted),
            (Array(stored.dropFirst(3)), .beginningMissing(bytes: 3)),
            (
                Array("PFS".utf8) + stored.dropFirst(3).prefix(90) + [stored[93] ^ 1] + stored.dropFirst(94),
                .overwritten
            ),
        ]
        for (bytes, mangling) in mangled {
            let path = try bed.makePlain("f", bytes)
            let expected = DataProtectionError.because(FileFailure.mangled(path, mangling))
            #expect(throws: expected) { try bed.keybag.protect(path, as: .complete) }
            #expect(throws: expected) { _ = try ProtectedFile.open(path, keybag: bed.keybag) }
            #expect(throws: expected) { _ = try ProtectedFileInfo(of: path) }
            #expect(throws: expected) { _ = try FileInspection(of: path, keybag: nil) }
            expectCocoa(.fileReadCorruptFile, "mangled") {
                _ = try Data(contentsOf: path.url, protectedBy: bed.keybag, ifPlaintext: .upgrade(to: .complete))
            }
            for isDryRun in [true, false] {
                var options = UpgradeOptions()
                options.isDryRun = isDryRun
                let upgrade = try bed.keybag.upgrade(directory: bed.directory, to: .complete, options: options)
                for await _ in upgrade {}
                #expect(upgrade.summary.failures.map(\.error) == [expected])
            }
            #expect(try path.contents() == bytes)
        }
    }

    /// Shorter than the magic it holds nothing of a protected file, however it begins.
    @Test(arguments: 1...7) func aFewBytesAreProtectedWhateverTheyAre(_ count: Int) async throws {
        let bed = try FileTestBed()
        let bytes = Array(Prefix.magic[..<count])
        let path = try bed.makePlain("f", bytes)
        #expect(try bed.keybag.protect(path, as: .complete) == .converted)
        #expect(try bed.read(path) == bytes)
        #expect(try bed.keybag.unprotect(path) == .converted)
        #expect(try path.contents() == bytes)
        #expect(try bed.keybag.unprotect(path) == .unchanged)
        let upgrade = try bed.keybag.upgrade(directory: bed.directory, to: .complete)
        for await _ in upgrade {}
        #expect(upgrade.summary.converted == 1 && upgrade.summary.failures == [])
        #expect(try bed.read(path) == bytes)
        let other = try bed.makePlain("g", bytes)
        try FileManager.default.setAttributes(
            [.protectionKey: FileProtectionType.complete], ofItemAtPath: other.string, protectedBy: bed.keybag)
        #expect(try bed.read(other) == bytes)
    }

    @Test func notBesideAWriter() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none, Self.text)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([1], at: 0)
        expectError("busy") { try bed.keybag.unprotect(path) }
        expectError("busy") { try ProtectedFile.copyCiphertext(from: path, to: bed.path("copy")) }
        try writer.close()
        try bed.keybag.unprotect(path)
        #expect(try path.contents() == [1] + Self.text.dropFirst())
    }

    /// A file that somebody wants to write to meanwhile is theirs. They would wait for us, and this thread is both.
    @Test func notWhatChangesMeanwhile() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", [UInt8](repeating: 1, count: 3_000_000))
        expectError("busy") {
            try bed.keybag.protect(path, as: .none) { done in
                guard done == 1 << 20 else { return }
                #expect(open(path.string, O_WRONLY | O_NONBLOCK) == -1 && errno == EWOULDBLOCK)
            }
        }
        try path.overwrite([5])
        #expect(try path.contents() == [5])
        #expect(try bed.names() == ["f"])
    }

    @Test func lockInTheMiddleLeavesTheFile() throws {
        let bed = try FileTestBed()
        let text = [UInt8](repeating: 1, count: 3_000_000)
        let path = try bed.makePlain("f", text)
        expectError("locked") {
            try bed.keybag.protect(path, as: .complete) { _ in try? bed.keybag.lock() }
        }
        #expect(try path.contents() == text)
        try bed.enter(.unlocked)
        try bed.keybag.protect(path, as: .complete)
        let stored = try path.contents()
        expectError("locked") { try bed.keybag.unprotect(path) { _ in try? bed.keybag.lock() } }
        #expect(try path.contents() == stored)
        #expect(try bed.names() == ["f"])
    }

    /// What a dead process left beside the file is taken away by who replaces the file next; what is in use is not.
    @Test func leftoversGo() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", Self.text)
        try bed.makePlain(".f.protectfs-unfinished-0", [1])
        let inUse = try LowerFile(try bed.makePlain(".f.protectfs-unfinished-1", [2]), flags: O_RDWR)
        #expect(flock(inUse.descriptor, LOCK_EX) == 0)
        try bed.keybag.protect(path, as: .none)
        #expect(try bed.names() == [".f.protectfs-unfinished-1", "f"])
        #expect(try bed.read(path) == Self.text)
    }

    /// Killed, or failed, between the change of names and the removal: the plaintext is still there, and whoever says it again
    /// finds nothing to convert.
    @Test(arguments: ["signal=KILL", "error=EIO"]) func whatIsDoneAlreadyIsClearedUp(_ end: String) throws {
        guard StormProcess.canKillAtCalls else { return print("skipped: there is no strace(1) here that may trace") }
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", Self.text)
        for isProtected in [true, false] {
            let wrapper = ["strace", "-qq", "-f", "-o", "/dev/null", "-e", "trace=unlinkat", "-e"]
            let worker = try StormProcess(
                bed.keybag.directory, ["convert", "0", isProtected ? "0" : "1", path.string],
                wrapper: wrapper + ["inject=unlinkat:\(end):when=1"])
            while try worker.line() != nil {}
            #expect(try bed.names().count == 2, "something is left")
            let result = try isProtected ? bed.keybag.protect(path, as: .complete) : bed.keybag.unprotect(path)
            #expect(result == .unchanged)
            #expect(try bed.names() == ["f"])
        }
    }
}
