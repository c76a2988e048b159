import Foundation
import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// FORMAT.md §2.16: raw copies with their class keys, and the way back under another keybag.
@Suite("Backups")
struct BackupTests {
    private static let all = ProtectionClass.allCases

    @Test(
        "Files of every class, in every lock state, restored with another device key",
        arguments: ProtectionState.allOfThem)
    func everyClass(state: ProtectionState) throws {
        let beds = try BackupBed()
        var texts: [String: [UInt8]] = [:]
        for (protectionClass, size) in Self.all.flatMap({ one in [0, 5, 3585, 5000, 300_001].map { (one, $0) } }) {
            let name = "\(protectionClass)-\(size)"
            texts[name] = pattern(UInt64(size), count: size)
            if size == 5000 {
                try beds.bed.make(name, protectionClass, texts[name]!)
            } else {
                try beds.bed.makeWhole(name, protectionClass, texts[name]!)
            }
        }
        try beds.bed.enter(state)
        let copied = try beds.backUp()
        #expect(copied == texts.mapValues { _ in "copied" })
        #expect(try beds.keybag.state() == state, "nothing was unlocked")
        for name in texts.keys { #expect(try beds.copy(name).contents() == beds.bed.path(name).contents()) }
        try beds.destroySource()

        #expect(try beds.restore() == copied)
        for (name, text) in texts {
            let path = try beds.restored(name)
            #expect(try beds.text(path) == text, "\(name)")
            let wraps = try StoredWraps(path).records
            #expect(wraps.count == 2 && wraps.allSatisfy { $0.classKey.keybag == beds.restorer.keybag.uuid })
            #expect(wraps.allSatisfy { "\($0.classKey.protectionClass)" == name.split(separator: "-")[0] })
            #expect(try beds.restorer.keybag.verify(path)?.verdict == .whole)
            let old = try StoredWraps(beds.copy(name)).records
            #expect(try old.allSatisfy { try !path.contents().holds($0.wrapped.bytes) }, "the old wrap is nowhere")
        }
    }

    @Test("While locked no backup is begun; one that is there needs nothing")
    func begin() throws {
        let beds = try BackupBed(makesKeybag: false)
        func make(_ passphrase: String) throws {
            try Backup(at: beds.backup, for: .backup)
                .makeKeybag(of: beds.keybag, passphrase: secret(passphrase), iterations: TestKeybag.iterations)
        }
        expectError("backupNotFound") { try beds.backUp() }
        for state in [ProtectionState.beforeFirstUnlock, .locked] {
            try beds.bed.enter(state)
            expectError("locked") { try make("x") }
            #expect(try beds.backup.names() == [])
        }
        try beds.bed.enter(.unlocked)
        expectError("passcodeUnusable") { try make("") }
        expectError("passcodeUnusable") { try make(String(repeating: "x", count: 1025)) }
        try make("x")
        expectError("exists") { try make("y") }
        #expect(try beds.backup.names() == ["keybag"])
        #expect(try beds.backup.mode() == 0o700)
        #expect(try beds.backup.appending("keybag").mode() == 0o600)
        expectError("wrongBackupPassphrase") { _ = try beds.open(passphrase: "y") }
        #expect(try beds.open(passphrase: "x").keybag.entries.count >= 4)
    }

    @Test("Only changed files are copied again")
    func unchanged() throws {
        let beds = try BackupBed()
        for name in ["same", "written", "appended", "class", "mode"] {
            try beds.bed.make(name, .complete, pattern(1, count: 9000))
        }
        try beds.backUp()
        let before = try beds.copy("same").status()?.st_ino
        let file = try ProtectedFile.open(beds.bed.path("written"), .readWrite, keybag: beds.keybag)
        try file.write([1, 2, 3], at: 5)
        try file.close()
        try beds.keybag.setProtection(.completeUnlessOpen, ofItemAt: beds.bed.path("class"))
        // Synced and not closed: the head says nothing of it.
        let log = try ProtectedFile.open(beds.bed.path("appended"), .readWrite, keybag: beds.keybag)
        try log.write([1], at: 9000)
        try log.sync()
        try log.write([2], at: 9001)
        try log.sync()
        try beds.bed.path("mode").setMode(0o640)
        let results = try beds.backUp()
        #expect(
            results == [
                "same": "unchanged", "written": "copied", "class": "copied", "appended": "copied", "mode": "unchanged",
            ])
        #expect(try beds.copy("same").status()?.st_ino == before)
        #expect(try beds.copy("mode").mode() == 0o640)
        try log.close()
        #expect(try beds.backUp()["appended"] == "copied")
        #expect(try Set(beds.backUp().values) == ["unchanged"])
        try beds.restore()
        #expect(try beds.text(beds.restored("appended")) == pattern(1, count: 9000) + [1, 2])
    }

    @Test("A damaged file does not replace a whole copy, and is reported", arguments: [false, true])
    func damaged(isCut: Bool) throws {
        let beds = try BackupBed()
        let (text, later) = (pattern(1, count: 20_000), pattern(2, count: 20_000))
        for name in ["old", "new"] { try beds.bed.make(name, .complete, text) }
        try beds.bed.path("new").remove()
        try beds.backUp()
        try beds.bed.make("new", .complete, later)
        for name in ["old", "new"] {
            var bytes = try beds.bed.path(name).contents()
            if isCut { bytes.removeLast(100) } else { bytes[9000] ^= 1 }
            try beds.bed.path(name).overwrite(bytes)
        }
        #expect(try beds.backUp() == ["old": "damaged", "new": "damaged"])
        #expect(try beds.copy("new").contents() == beds.bed.path("new").contents(), "better than no copy")
        try beds.restore()
        #expect(try beds.text(beds.restored("old")) == text)
    }

    @Test(
        "An unclosed file that has lost commits since the last backup does not take their copy away, and is reported",
        arguments: ["cut", "flipped", "older head"])
    func lostCommits(how: String) throws {
        let beds = try BackupBed()
        let path = try beds.bed.make("f", .complete, pattern(1, count: 40_000))
        let file = try ProtectedFile.open(path, .readWrite, keybag: beds.keybag)
        for number: UInt64 in 2..<4 {
            try file.write(pattern(number, count: 9000), at: 0)
            try file.sync()
        }
        let (bytes, text) = (try path.contents(), try beds.bed.read(path))
        let stored = try StoredFile(path)
        try file.close()
        try path.overwrite(bytes)  // its writer was killed
        #expect(try beds.backUp() == ["f": "copied"])
        let (start, head) = (Int(stored.state.redoOffset), stored.heads.inForce)
        switch how {
        case "cut": try path.overwrite(Array(bytes[..<start]))
        case "flipped":
            var flipped = bytes
            flipped[start + 200] ^= 1
            try path.overwrite(flipped)
        default:
            var zeroed = bytes
            for place in head * Head.length..<(head + 1) * Head.length { zeroed[place] = 0 }
            try path.overwrite(zeroed)
        }
        for _ in 0..<2 { #expect(try beds.backUp() == ["f": "damaged"]) }
        // What is certain to be damaged is not copied at all.
        #expect(try (how == "older head" ? beds.copy("f") : beds.earlier("f")).contents() == bytes)
        #expect(try beds.restore(to: "tried", .onlyTrying) == ["f": how == "older head" ? "copied" : "restoredEarlier"])
        #expect(try beds.restore(to: "before") == ["f": how == "older head" ? "copied" : "restoredEarlier"])
        #expect(try beds.text(beds.restored("f", in: "before")) == text)
        // The file goes on without them, and its counter passes that of the copy.
        if how == "cut" {
            let next = try ProtectedFile.open(path, .readWrite, keybag: beds.keybag)
            for number: UInt64 in 0..<6 {
                try next.write(pattern(number, count: 100), at: 0)
                try next.sync()
            }
            try next.close()
            for _ in 0..<2 { #expect(try beds.backUp()["f"] == "damaged") }
            #expect(try beds.earlier("f").contents() == bytes)
        }
        // Whoever brings it back gets it, also in the place of what has lost them.
        try path.overwrite(bytes)
        #expect(try beds.backUp() == ["f": how == "cut" ? "damaged" : "copied"])
        if how == "cut" {
            // Now the commits that came without them are only there.
            #expect(try beds.earlier("f").contents() != bytes)
            try beds.earlier("f").remove()
            #expect(try beds.backUp() == ["f": "copied"], "it is not closed")
        }
        if how != "older head" { #expect(try beds.earlier("f").directory.names() == []) }
        #expect(try beds.restore() == ["f": "copied"])
        let target = try beds.restored("f")
        #expect(try beds.text(target) == text)
        #expect(try beds.restore() == ["f": "unchanged"])
        try target.overwrite(Array(target.contents()[..<start]))
        #expect(try beds.restore(to: "target", .replacing) == ["f": "copied"])
        #expect(try beds.text(target) == text)
    }

    @Test("Of a copy with a damaged head, which may have led to later commits, no older contents are restored")
    func copyWithDamagedHead() throws {
        let beds = try BackupBed()
        let path = try beds.bed.make("f", .complete, pattern(1, count: 40_000))
        let file = try ProtectedFile.open(path, .readWrite, keybag: beds.keybag)
        try file.write(pattern(2, count: 9000), at: 0)
        try file.sync()
        let (bytes, head) = (try path.contents(), try StoredFile(path).heads.inForce)
        try file.close()
        try path.overwrite(bytes)
        #expect(try beds.backUp() == ["f": "copied"])
        var damaged = bytes
        damaged[head * Head.length + 100] ^= 1
        try beds.copy("f").overwrite(damaged)
        #expect(try beds.restore(to: "tried", .onlyTrying) == ["f": "damaged"])
        #expect(try beds.restore() == ["f": "damaged"])
    }

    @Test("A size that was forged while locked, with its check made right, takes no whole copy away")
    func forgedSize() throws {
        let beds = try BackupBed()
        let text = pattern(1, count: 20_000)
        let path = try beds.bed.make("f", .complete, text)
        let good = try path.contents()
        try beds.backUp()
        try beds.keybag.lock()
        for size: UInt64 in [9000, 4096, 1] {
            try beds.bed.forgeSize(of: path, size)
            #expect(try beds.backUp() == ["f": "copied"], "nothing shows it now")
            #expect(try beds.earlier("f").contents() == good, "\(size)")
        }
        #expect(try beds.restore(to: "tried", .onlyTrying) == ["f": "restoredEarlier"])
        #expect(try beds.restore() == ["f": "restoredEarlier"])
        #expect(try beds.text(beds.restored("f")) == text)

        try beds.bed.enter(.unlocked)
        for _ in 0..<2 { #expect(try beds.backUp() == ["f": "damaged"]) }
        try path.setMode(0o640)
        #expect(try beds.backUp() == ["f": "damaged"])
        #expect(try beds.earlier("f").contents() == good)
        try path.overwrite(good)
        #expect(try beds.backUp() == ["f": "copied"])
        #expect(try beds.earlier("f").directory.names() == [])
        #expect(try beds.restore(to: "later") == ["f": "copied"])
    }

    @Test("A file changed while locked is copied; the earlier copy is kept until the new one is verified")
    func changedWhileLocked() throws {
        let beds = try BackupBed()
        let names = ["same", "changed", "deleted"]
        for name in names { try beds.bed.makeWhole(name, .completeUnlessOpen, pattern(1, count: 9000)) }
        try beds.backUp()
        let before = try beds.copy("changed").contents()
        try beds.keybag.lock()
        for name in names.dropFirst() { try beds.bed.makeWhole(name, .completeUnlessOpen, pattern(2, count: 9000)) }
        #expect(try beds.backUp() == ["same": "unchanged", "changed": "copied", "deleted": "copied"])
        #expect(try beds.earlier("changed").contents() == before)
        #expect(try beds.backUp() == ["same": "unchanged", "changed": "unchanged", "deleted": "unchanged"])
        #expect(try beds.earlier("same").directory.names() == ["changed", "deleted"])
        #expect(try Set(beds.restore().values) == ["copied"])
        #expect(try beds.text(beds.restored("changed")) == pattern(2, count: 9000))

        try beds.bed.path("deleted").remove()
        let results = try beds.backUp(delete: true)
        #expect(results == ["same": "unchanged", "changed": "unchanged", "deleted": "removed"])
        #expect(try beds.earlier("same").directory.names() == ["changed"])
        try beds.bed.enter(.unlocked)
        #expect(try beds.backUp() == ["same": "unchanged", "changed": "unchanged"])
        #expect(try beds.earlier("same").directory.names() == [])
    }

    @Test("A file that anybody could have made takes no verified copy away")
    func planted() throws {
        let beds = try BackupBed()
        let path = try beds.bed.makeWhole("f", .completeUnlessOpen, pattern(1, count: 9000))
        let good = try path.contents()
        try beds.backUp()
        try path.overwrite(beds.bed.makePlanted("planted").contents())
        try beds.bed.path("planted").remove()
        #expect(try beds.backUp() == ["f": "copied"])
        #expect(try beds.earlier("f").contents() == good)
    }

    @Test("A genuine file of a weaker class, put in its place while locked, takes no copy away before an unlock")
    func weakerInItsPlace() throws {
        let beds = try BackupBed()
        let path = try beds.bed.make("f", .complete, [1])
        let weaker = try beds.bed.make("weaker", .completeUntilFirstUserAuthentication, [2])
        #expect(try beds.backUp([path]) == ["f": "copied"])
        try beds.keybag.lock()
        try path.overwrite(try weaker.contents())
        #expect(try beds.backUp([path]) == ["f": "copied"])
        #expect(try beds.backUp([path]) == ["f": "unchanged"])
        let earlier = try beds.earlier("f")
        #expect(try ProtectedFileInfo(of: earlier).protectionClass == .complete)
        try beds.bed.enter(.unlocked)
        #expect(try beds.backUp([path]) == ["f": "unchanged"])
        #expect(OwnDirectory.exists(earlier) == false)
    }

    @Test("A file that is moved during a backup with --delete has a copy afterwards")
    func movedMeanwhile() throws {
        let beds = try BackupBed()
        for name in ["a", "b"] { #expect(mkdir(beds.bed.path(name).string, 0o755) == 0) }
        for name in ["a/1", "b/2", "b/moved"] { try beds.bed.make(name, .complete, [1]) }
        try beds.backUp()
        let (from, to) = (beds.bed.path("b/moved"), beds.bed.path("a/moved"))
        let pass = try BackupPass(beds.keybag, into: Backup(at: beds.backup, for: .backup), removesDeleted: true)
        pass.run([beds.bed.directory]) { if $0.path.lastComponent == "1" { _ = rename(from.string, to.string) } }
        #expect(try beds.copy("a").names() == ["1", "moved"])
        #expect(try beds.copy("b").names() == ["2"])
    }

    @Test("A link in the place of a file takes no copy away, in a backup and in a restore")
    func linkInItsPlace() throws {
        let beds = try BackupBed()
        let path = try beds.bed.make("f", .complete, [1])
        try beds.backUp([path])
        let moved = beds.bed.path("moved")
        #expect(rename(path.string, moved.string) == 0 && symlink("/etc/hostname", path.string) == 0)
        #expect(try beds.backUp() == ["f": "exists", "moved": "copied"])
        #expect(try beds.backUp(delete: true) == ["f": "copied", "moved": "unchanged"])
        #expect(try beds.restore() == ["f": "copied", "moved": "copied"])
        let place = try beds.restored("f")
        #expect(unlink(place.string) == 0 && link(moved.string, place.string) == 0)
        #expect(try beds.restore(to: "target", .replacing) == ["f": "exists", "moved": "unchanged"])
        #expect(try ProtectedFileInfo(of: place).protectionClass == .complete)
    }

    @Test("The backup of a file that is being written contains the synced bytes", arguments: all)
    func beingWritten(protectionClass: ProtectionClass) throws {
        let beds = try BackupBed()
        let text = pattern(3, count: 40_000)
        let log = try ProtectedFile.open(
            beds.bed.path("log"), .readWrite, create: protectionClass, keybag: beds.keybag)
        try log.write(text, at: 0)
        try log.sync()
        try log.write(pattern(9, count: 5000), at: 100)
        try log.sync()
        try log.write([0xFF], at: 39_999)
        #expect(try beds.backUp() == ["log": "copied"])
        #expect(try beds.restore() == ["log": "copied"])
        let expected = text[..<100] + pattern(9, count: 5000) + text[5100...]
        #expect(try beds.text(beds.restored("log")) == Array(expected))
        try log.close()
    }

    @Test("After a rotation: refused, and copied when the class keys were added; earlier copies still open")
    func rotation() throws {
        let beds = try BackupBed()
        for name in ["kept", "gone"] { try beds.bed.make(name, .complete, Array(name.utf8)) }
        #expect(try beds.backUp() == ["kept": "copied", "gone": "copied"])
        try beds.bed.path("gone").remove()
        try beds.bed.bag.rotate()
        #expect(try beds.backUp() == ["kept": "unchanged"], "still under the key that the backup has")
        try beds.keybag.rewrap(fileAt: beds.bed.path("kept"))
        #expect(try beds.backUp() == ["kept": "keyNotInBackup"])
        try beds.bed.bag.forgetRetired()
        expectError("wrongBackupPassphrase") { try beds.renew(passphrase: "another") }
        try beds.keybag.lock()
        expectError("locked") { try beds.renew() }
        try beds.bed.enter(.unlocked)
        #expect(try beds.backUp() == ["kept": "keyNotInBackup"], "none of these has changed anything")
        try beds.renew()
        #expect(try beds.backUp() == ["kept": "copied"])
        #expect(try beds.restore() == ["kept": "copied", "gone": "copied"])
        #expect(try beds.text(beds.restored("gone")) == Array("gone".utf8))
        let count = try beds.open().keybag.entries.count
        try beds.renew()
        #expect(try beds.open().keybag.entries.count == count, "no key comes twice")
    }

    @Test("Neither the keybag nor the backup itself is copied; a path that names one is reported")
    func own() throws {
        let beds = try BackupBed()
        try beds.bed.make("file", .complete, [1])
        try beds.backUp()
        for path in [beds.keybag.directory, try beds.copy("file").removingLastComponent()] {
            #expect(try beds.backUp([path]).values.sorted() == ["notForBackup"])
        }
    }

    @Test("Another keybag's file, plaintext, and a file whose key is forgotten, are not copied")
    func refused() throws {
        let beds = try BackupBed()
        try beds.bed.make("own", .complete, [1])
        try beds.bed.makePlain("plain", [1, 2, 3])
        let other = try FileTestBed()
        try beds.bed.path("foreign").overwrite(other.makeWhole("foreign", .complete, [1]).contents())
        #expect(try beds.backUp() == ["own": "copied", "plain": "notProtected", "foreign": "foreignKeybag"])
        #expect(try beds.backUp([beds.bed.path("plain")]) == ["plain": "notProtected"], "as a failure, see below")
        #expect(try beds.copy("own").directory.names() == ["own"])
        try beds.bed.bag.rotate()
        try beds.bed.bag.forgetRetired()
        #expect(try beds.backUp([beds.bed.path("own")]) == ["own": "keyLost"])
        expectError("foreignKeybag") {
            _ = try BackupPass(other.keybag, into: Backup(at: beds.backup, for: .backup), removesDeleted: false)
        }
    }

    @Test("One writer, or many readers; and nothing is mixed with other files")
    func held() throws {
        let beds = try BackupBed()
        var holder: Backup? = try Backup(at: beds.backup, for: .backup)
        expectError("busy") { try beds.backUp() }
        expectError("busy") { _ = try beds.open() }
        holder = try {
            holder = nil
            return try Backup(at: beds.backup, for: .restore)
        }()
        _ = try beds.open()
        expectError("busy") { try beds.backUp() }
        withExtendedLifetime(holder) {}
        expectError("exists") { _ = try Backup(at: beds.bed.bag.scratchPath, for: .backup) }
        expectError("backupNotFound") { _ = try Backup(at: beds.bed.bag.scratchPath, for: .restore) }
        expectError("backupNotFound") { _ = try Backup(at: beds.bed.path("nothing"), for: .restore) }
    }

    /// With the keyless check made anew: what is left must be found by wrap, MAC or id.
    @Test("A backup keybag with any byte altered does not open")
    func alteredKeybag() throws {
        let beds = try BackupBed()
        let path = beds.backup.appending("keybag")
        let good = try path.contents()
        var names: Set<String> = []
        for index in stride(from: 0, to: good.count - 32, by: 3) {
            var bytes = good
            bytes[index] ^= 0x40
            bytes = Array(bytes.dropLast(32)) + (try Digest.sha256(Array(bytes.dropLast(32))))
            // A high count is allowed, and takes its time.
            if (44..<48).contains(index) { continue }
            try path.overwrite(bytes)
            let error = #expect(throws: DataProtectionError.self, "\(index)") { _ = try beds.open() }
            if let error { names.insert(error.caseName) }
        }
        #expect(names == ["damaged", "unsupported", "wrongBackupPassphrase"])
        for length in [0, 7, 64, good.count - 1] {
            try path.overwrite(Array(good.prefix(length)))
            expectError("damaged") { _ = try beds.open() }
            expectError("damaged") { try beds.backUp() }
        }
        try path.overwrite(good)
        _ = try beds.open()
    }

    @Test(
        "Another program, written from FORMAT.md, reads the copies with the passphrase alone",
        .enabled(if: IndependentReaderTests.hasPython))
    func independentReader() throws {
        let beds = try BackupBed()
        var expected: [UInt8] = []
        for (protectionClass, size) in Self.all.flatMap({ one in [7, 9000].map { (one, $0) } }) {
            try beds.bed.make("\(protectionClass)-\(size)", protectionClass, pattern(8, count: size))
            expected += pattern(8, count: size)
        }
        try beds.backUp()
        try beds.destroySource()
        let copies = try Self.all.flatMap { one in try [7, 9000].map { try beds.copy("\(one)-\($0)").string } }
        let words = [IndependentReaderTests.folder.appending("backup.py").string, beds.backup.string]
        let answer = try IndependentReaderTests.python(words + copies, input: BackupBed.passphrase + "\n")
        #expect(answer.status == 0 && answer.output == expected, "\(answer.error)")
        let wrong = try IndependentReaderTests.python(words + copies, input: "wrong\n")
        #expect(wrong.status == 65 && wrong.output == [] && wrong.error.contains("wrong passphrase"))
    }
}
