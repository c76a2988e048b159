import Foundation
import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Restoring")
struct RestoreTests {
    @Test("A damaged copy is refused and gets no name, the others are restored")
    func damaged() throws {
        let beds = try BackupBed()
        for name in ["a", "b", "c", "d", "e"] { try beds.bed.make(name, .complete, pattern(4, count: 20_000)) }
        try beds.backUp()
        func alter(_ name: String, _ change: (inout [UInt8]) -> Void) throws {
            var bytes = try beds.copy(name).contents()
            change(&bytes)
            try beds.copy(name).overwrite(bytes)
        }
        try alter("a") { $0[8300] ^= 1 }
        try alter("b") { $0.removeLast() }
        try alter("c") {
            $0[100] ^= 1
            $0[4196] ^= 1
        }
        try alter("d") { $0[300] ^= 1 }
        #expect(
            try beds.restore() == ["a": "damaged", "b": "damaged", "c": "damaged", "d": "copied", "e": "copied"],
            "of d the other head is good")
        #expect(try beds.restored("x").directory.names() == ["d", "e"])
        #expect(try beds.text(beds.restored("d")) == pattern(4, count: 20_000))
    }

    @Test(
        "A restored file that was damaged since is replaced, or named as being in the way", arguments: [0, 300, 9000])
    func damagedSince(offset: Int) throws {
        let beds = try BackupBed()
        let text = pattern(4, count: 20_000)
        try beds.bed.make("f", .complete, text)
        try beds.backUp()
        try beds.restore()
        var bytes = try beds.restored("f").contents()
        if offset == 0 { bytes.removeLast() } else { bytes[offset] ^= 1 }
        try beds.restored("f").overwrite(bytes)
        #expect(try beds.restore() == ["f": "exists"])
        #expect(try beds.restore(to: "target", .replacing) == ["f": "copied"])
        #expect(try beds.text(beds.restored("f")) == text)
        #expect(try beds.restore() == ["f": "unchanged"])
    }

    @Test(
        "A restored file is not weaker than the one that it replaces, though its head says so or is damaged",
        arguments: [true, false])
    func forgedSince(isDamaged: Bool) throws {
        let beds = try BackupBed()
        for name in ["a", "b"] { try beds.bed.make(name, .completeUntilFirstUserAuthentication, [1, 2, 3]) }
        try beds.backUp()
        try beds.restore()
        let path = try beds.restored("a")
        try beds.restorer.keybag.setProtection(.complete, ofItemAt: path)
        if isDamaged {
            var bytes = try path.contents()
            for head in [0, 4096] { bytes[head + 100] ^= 1 }
            try path.overwrite(bytes)
        } else {
            try beds.bed.forgeClass(of: path, .completeUntilFirstUserAuthentication)
        }
        #expect(try beds.restore(.replacing) == ["a": "copied", "b": "unchanged"])
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
        #expect(try beds.text(path) == [1, 2, 3])
    }

    @Test("A line that was appended to a file is saved beside it when it is replaced", arguments: [true, false])
    func appendedSince(isDamaged: Bool) throws {
        let beds = try BackupBed()
        let text = pattern(4, count: 20_000)
        try beds.bed.make("f", .complete, text)
        try beds.backUp()
        try beds.restore()
        let path = try beds.restored("f")
        if !isDamaged {
            try path.remove()
            let file = try ProtectedFile.open(path, .readWrite, create: .complete, keybag: beds.restorer.keybag)
            try file.write(pattern(5, count: 20_000), at: 0)
            try file.close()
        }
        let line = Array("a line of another program\n".utf8)
        var bytes = try path.contents() + line
        if isDamaged { bytes[9000] ^= 1 }
        try path.overwrite(bytes)
        #expect(try beds.restore() == ["f": "exists"])
        #expect(try path.directory.names() == ["f"])
        #expect(try beds.restore(.replacing) == ["f": "copied"])
        #expect(try path.directory.names() == ["f", "f.appended-1"])
        #expect(try beds.restored("f.appended-1").contents() == line)
        #expect(try beds.text(path) == text)
    }

    @Test("A file that cannot be read is not replaced: nobody knows what it ends in")
    func unreadable() throws {
        let beds = try BackupBed()
        try beds.bed.make("f", .complete, [1])
        try beds.backUp()
        try beds.restore()
        let path = try beds.restored("f")
        let lease = try Lease(path)
        #expect(try beds.restore() == ["f": "exists"])
        #expect(try beds.restore(.replacing) == ["f": "busy"])
        lease.end()
        #expect(try beds.restore() == ["f": "unchanged"])
    }

    /// With the check of the head made anew in both: the seals must find it.
    @Test("A head with any byte altered is refused, or gives the right text")
    func alteredHeads() throws {
        let beds = try BackupBed()
        let text = pattern(7, count: 100)
        let path = try beds.bed.makeWhole("f", .completeUnlessOpen, text)
        try beds.backUp()
        let good = try path.contents()
        var refused = 0
        for index in stride(from: 0, to: 520, by: 3) {
            var bytes = good
            bytes[index] ^= 0x20
            let checked = try Array(bytes[..<4064]) + Digest.sha256(Array(bytes[..<4064]))
            try beds.copy("f").overwrite(checked)
            let result = try beds.restore(to: "t\(index)")["f"]
            if result == "copied" {
                #expect(try beds.text(beds.restored("f", in: "t\(index)")) == text, "byte \(index)")
            } else {
                refused += 1
            }
        }
        #expect(refused > 160, "almost all of them: \(refused)")
    }

    @Test("A tree: directories, links, modes, times and attributes; hard links as files of their own")
    func tree() throws {
        let beds = try BackupBed()
        let root = beds.bed.directory
        let inner = root.appending("sub").appending("inner")
        try FileManager.default.createDirectory(atPath: inner.string, withIntermediateDirectories: true)
        try FileManager.default.createDirectory(
            atPath: root.appending("empty").string, withIntermediateDirectories: true)
        try beds.bed.make("sub/inner/file", .complete, [1, 2])
        try beds.bed.make("one", .none, [3])
        #expect(link(root.appending("one").string, root.appending("two").string) == 0)
        try root.appending("link").makeSymbolicLink(to: "../outside/never")
        try root.appending("fifo").makeFIFO()
        try inner.appending("file").setMode(0o440)
        try inner.setMode(0o500)
        // Whether others may remove files in it, and which group new ones get.
        try root.appending("empty").setMode(0o3775)
        try ExtendedAttributes.set(DirectoryDefault.attribute, to: Array("complete".utf8), of: root.appending("empty"))
        var times = [timespec(tv_sec: 1_000_000_000, tv_nsec: 5), timespec(tv_sec: 1_100_000_000, tv_nsec: 6)]
        #expect(utimensat(AT_FDCWD, root.appending("one").string, &times, 0) == 0)
        defer { try? inner.setMode(0o700) }

        let results = try beds.backUp()
        #expect(
            results == [
                "file": "copied", "one": "copied", "two": "copied", "link": "copied", "fifo": "notRegularFile",
            ])
        #expect(try beds.backUp()["link"] == "unchanged")
        #expect(try beds.restore().filter { $0.value != "copied" } == [:])
        let to = try beds.restored("x").directory
        #expect(try to.names() == ["empty", "link", "one", "sub", "two"])
        #expect(try to.appending("sub/inner").mode() == 0o500)
        #expect(try to.appending("sub/inner/file").mode() == 0o440)
        #expect(try to.appending("empty").mode() == 0o3775)
        #expect(try to.appending("one").status()?.st_mtim.tv_sec == 1_100_000_000)
        #expect(
            try FileManager.default.destinationOfSymbolicLink(atPath: to.appending("link").string) == "../outside/never"
        )
        #expect(DirectoryDefault.value(of: to.appending("empty")) == "complete")
        #expect(try beds.text(to.appending("two")) == [3])
        #expect(try to.appending("two").status()?.st_ino != to.appending("one").status()?.st_ino)
        try to.appending("sub/inner").setMode(0o700)
        try beds.copy("sub/inner").setMode(0o700)
    }

    @Test("An existing file stays unless it is to be replaced; a file already restored is left alone")
    func existing() throws {
        let beds = try BackupBed()
        for name in ["a", "b"] { try beds.bed.make(name, .complete, Array(name.utf8)) }
        try beds.bed.path("l").makeSymbolicLink(to: "a")
        try beds.backUp()
        let a = try beds.restored("a")
        try FileManager.default.createDirectory(atPath: a.directory.string, withIntermediateDirectories: true)
        try a.overwrite([9])
        #expect(try beds.restore() == ["a": "exists", "b": "copied", "l": "copied"])
        #expect(try a.contents() == [9])
        #expect(try beds.restore() == ["a": "exists", "b": "unchanged", "l": "unchanged"])
        #expect(try beds.restore(.replacing) == ["a": "copied", "b": "unchanged", "l": "unchanged"])
        #expect(try beds.text(a) == Array("a".utf8))
        let file = try ProtectedFile.open(a, .readWrite, keybag: beds.restorer.keybag)
        try file.write([5], at: 0)
        #expect(try beds.restore(.replacing)["a"] == "busy")
        try file.close()
        #expect(try beds.restore()["a"] == "exists", "it was changed")
    }

    @Test("Only the named paths are restored, and a trial restores nothing")
    func selection() throws {
        let beds = try BackupBed()
        try FileManager.default.createDirectory(
            atPath: beds.bed.path("d").string, withIntermediateDirectories: false)
        for name in ["a", "d/b", "d/c"] { try beds.bed.make(name, .complete, Array(name.utf8)) }
        try beds.backUp()
        let root = try beds.bed.directory.resolved()
        #expect(try beds.restore(to: "t0", .onlyTrying) == ["a": "copied", "b": "copied", "c": "copied"])
        #expect(access(beds.target("t0").string, F_OK) == -1, "not even the target is made")
        #expect(try beds.restore(to: "t1", .new, [root.appending("d")]) == ["b": "copied", "c": "copied"])
        #expect(
            try beds.restore(to: "t2", .new, [root.appending("d").appending("c"), root.appending("z")])
                == ["c": "copied", "z": "system"])
        #expect(try beds.restored("d", in: "t2").names() == ["c"])
    }

    @Test("Nothing is written through a link, or above the target")
    func links() throws {
        let beds = try BackupBed()
        try FileManager.default.createDirectory(
            atPath: beds.bed.path("d").string, withIntermediateDirectories: false)
        try beds.bed.make("d/f", .complete, [1])
        try beds.backUp()
        let outside = beds.restorer.scratchPath.appending("outside")
        try FileManager.default.createDirectory(atPath: outside.string, withIntermediateDirectories: false)
        // In the target: somebody has put a link where a directory is to be.
        let d = try beds.restored("d")
        try FileManager.default.createDirectory(atPath: d.directory.string, withIntermediateDirectories: true)
        try d.makeSymbolicLink(to: outside)
        #expect(try beds.restore() == ["d": "exists"])
        #expect(try beds.restore(.replacing) == ["d": "exists"])
        #expect(try outside.names() == [])
        // In the backup: a link to a tree of somebody's choice is a link, and restored as one.
        let copy = try beds.copy("d")
        try copy.remove()
        try copy.makeSymbolicLink(to: outside)
        try outside.appending("f").overwrite(beds.bed.path("d/f").contents())
        #expect(try beds.restore(to: "t1") == ["d": "copied"])
        let restored = try beds.restored("d", in: "t1")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: restored.string) == outside.string)
        // `..` in a name that is asked for leads nowhere but to what it means in the backup.
        #expect(try beds.restore(to: "t2", .new, ["/../../../etc/hostname"]) == ["hostname": "system"])
        // The whole of the copies may be a link too.
        let files = beds.backup.appending("files")
        try files.remove()
        try files.makeSymbolicLink(to: "/")
        #expect(throws: DataProtectionError.self) { try beds.restore(to: "t3") }
        #expect(!OwnDirectory.exists(beds.target("t3")))
    }

    @Test("The restorer's keybag must be unlocked; a lock in between stops at the next file")
    func locked() throws {
        let beds = try BackupBed()
        for name in ["a", "b", "c"] { try beds.bed.make(name, .complete, [1]) }
        try beds.backUp()
        try beds.restorer.keybag.lock()
        expectError("locked") { try beds.restore() }
        try beds.restorer.unlock()
        let held = try Backup(at: beds.backup, for: .restore)
        let pass = try RestorePass(
            held, try held.open(passphrase: secret(BackupBed.passphrase)), into: beds.restorer.keybag, .new)
        var count = 0
        try pass.run(to: beds.target()) { _ in
            count += 1
            if count == 1 { try? beds.restorer.keybag.lock() }
        }
        #expect(count == 2, "the second one is refused, the third is not tried")
        #expect(try beds.restored("x").directory.names() == ["a"])
    }

    @Test("The verdict of origin is carried and never improves")
    func origin() throws {
        let beds = try BackupBed()
        try beds.bed.make("verified", .completeUnlessOpen, [1])
        try beds.bed.enter(.beforeFirstUnlock)
        try beds.bed.make("device", .completeUnlessOpen, [2])
        try beds.bed.enter(.unlocked)
        try beds.backUp()
        try beds.restore()
        func origin(_ name: String) throws -> OriginMark.Verdict? {
            try beds.restorer.keybag.verify(beds.restored(name))?.origin
        }
        #expect(try origin("verified") == .verified)
        #expect(try origin("device") == .unverified, "the other device's key is not here")
        // Altered: the MAC says no, whoever wraps it anew.
        let wraps = try StoredWraps(beds.restored("device")).records
        #expect(wraps.allSatisfy { $0.origin.verdict == .unverified && $0.origin.key == .classC })
    }

    @Test("The copy of a deleted file, or of one replaced by a directory, is removed only on request")
    func deleted() throws {
        let beds = try BackupBed()
        for name in ["a", "b", "c"] { try beds.bed.make(name, .complete, [1]) }
        try beds.backUp()
        try beds.bed.path("a").remove()
        try beds.bed.path("b").replaceByDirectory()
        try beds.bed.make("b/f", .complete, [2])
        #expect(try beds.backUp() == ["b": "exists", "c": "unchanged"])
        #expect(try beds.copy("a").directory.names() == ["a", "b", "c"])
        #expect(try beds.backUp(delete: true) == ["a": "removed", "f": "copied", "c": "unchanged"])
        #expect(try beds.restore() == ["f": "copied", "c": "copied"])
    }
}
