import Foundation
import Glibc
import ProtectionFormat
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// A file encrypted anew, under a new file key.
@Suite("Rekeying a file")
struct RekeyTests {
    private static let all = ProtectionClass.allCases

    @Test("Nothing of the old file is left but what it says", arguments: [0, 9, 3585, 4096, 300_001])
    func contents(size: Int) throws {
        let bed = try FileTestBed()
        let text = pattern(5, count: size)
        for (protectionClass, isWhole) in Self.all.flatMap({ [($0, true), ($0, false)] }) {
            let name = "\(protectionClass)-\(isWhole)"
            let path = try isWhole ? bed.makeWhole(name, protectionClass, text) : bed.make(name, protectionClass, text)
            let before = try path.contents()
            let old = try StoredFile(path).heads.head
            try bed.keybag.rekey(fileAt: path)
            let new = try StoredFile(path).heads.head
            #expect(new.prefix.fileID != old.prefix.fileID)
            #expect(new.wrap.commitment != old.wrap.commitment, "another file key")
            #expect(new.prefix.layout == old.prefix.layout)
            #expect(new.wrap.classKey == old.wrap.classKey)
            #expect(new.generation == 1)
            if size > 4096 { #expect(try !path.contents().holds(Array(before[9000..<9032]))) }
            #expect(try bed.read(path) == text)
            #expect(try bed.keybag.verify(path)?.verdict == .whole)
        }
        #expect(try bed.names().count == 8, "nothing else is left there")
    }

    @Test("With another class, as the states allow", arguments: all, all)
    func classes(old: ProtectionClass, new: ProtectionClass) throws {
        let bed = try FileTestBed()
        let text = pattern(6, count: 9000)
        let path = try bed.make("f", old, text)
        let before = try path.contents()
        for state in ProtectionState.allOfThem
        where !AccessRule.opens(old, in: state) || !AccessRule.wraps(new, in: state) {
            try bed.enter(state)
            expectError("locked") { try bed.keybag.rekey(fileAt: path, as: new) }
            #expect(try path.contents() == before)
            #expect(try bed.names() == ["f"])
        }
        try bed.enter(.unlocked)
        try bed.keybag.rekey(fileAt: path, as: new)
        #expect(try ProtectedFileInfo(of: path).protectionClass == new)
        #expect(try bed.read(path) == text)
    }

    @Test("Mode, times, attributes and the verdict of origin stay")
    func attributes() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let path = try bed.make("f", .completeUnlessOpen)
        try bed.enter(.unlocked)
        try path.setMode(0o640)
        try ExtendedAttributes.set("user.note", to: [1, 2], of: path)
        var times = [timespec(tv_sec: 1000, tv_nsec: 5), timespec(tv_sec: 2000, tv_nsec: 7)]
        #expect(utimensat(AT_FDCWD, path.string, &times, 0) == 0)
        try bed.keybag.rekey(fileAt: path, as: .complete)
        var status = stat()
        #expect(lstat(path.string, &status) == 0)
        #expect(status.st_mtim.tv_sec == 2000 && status.st_mtim.tv_nsec == 7)
        #expect(try path.mode() == 0o640)
        #expect(ExtendedAttributes.get("user.note", of: path) == [1, 2])
        #expect(try ProtectedFile.open(path, keybag: bed.keybag).origin() == .thisDevice, "never improved")
    }

    @Test("Holes take no room afterwards either")
    func holes() throws {
        let bed = try FileTestBed()
        let text = pattern(7, count: 5000)
        for size in [100, 1 << 30, (1 << 30) + 1] as [Int64] {
            let file = try ProtectedFile.create(bed.path("f\(size)"), as: .complete, keybag: bed.keybag)
            try file.truncate(to: size)
            if size > 5000 { try file.write(text, at: (1 << 29) + 17) }
            try file.close()
            let path = bed.path("f\(size)")
            let before = try StoredFile(path).state.record.holes
            try bed.keybag.rekey(fileAt: path)
            let stored = try StoredFile(path)
            stored.expectClosed()
            #expect(stored.state.record.holes == before)
            #expect(stored.state.record.size == UInt64(size))
            #expect(try bed.keybag.verify(path)?.verdict == .whole)
            let again = try ProtectedFile.open(path, keybag: bed.keybag)
            if size > 5000 { #expect(try again.bytes(at: (1 << 29) + 17, count: 5000) == text) }
            #expect(try again.bytes(at: 0, count: 50) == [UInt8](repeating: 0, count: 50))
        }
    }

    @Test("Open readers keep the old file; a rekey beside an open writer is busy")
    func handles() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1, 2, 3])
        let reader = try ProtectedFile.open(path, keybag: bed.keybag)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([9], at: 0)
        try writer.sync()
        #expect(throws: DataProtectionError.busy(path)) { try bed.keybag.rekey(fileAt: path) }
        try writer.close()
        try bed.keybag.rekey(fileAt: path)
        let new = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try new.write([7], at: 0)
        try new.close()
        #expect(try reader.bytes(at: 0, count: 3) == [9, 2, 3])
        #expect(try bed.read(path) == [7, 2, 3])
    }

    @Test("A file that cannot be rekeyed is left as it is")
    func refused() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none, [1])
        #expect(link(path.string, bed.path("second").string) == 0)
        expectError("hasHardLinks") { try bed.keybag.rekey(fileAt: path) }
        try bed.path("link").makeSymbolicLink(to: path)
        expectError("notRegularFile") { try bed.keybag.rekey(fileAt: bed.path("link")) }
        expectError("notRegularFile") { try bed.keybag.rekey(fileAt: bed.directory) }
        expectError("notProtected") { try bed.keybag.rekey(fileAt: bed.makePlain("plain", [1])) }
        let damaged = try bed.make("damaged", .none, pattern(8, count: 9000))
        var bytes = try damaged.contents()
        bytes[9000] ^= 1
        try damaged.overwrite(bytes)
        expectError("damaged") { try bed.keybag.rekey(fileAt: damaged) }
        #expect(try damaged.contents() == bytes)
        #expect(try bed.names() == ["damaged", "f", "link", "plain", "second"])
    }

    @Test(
        "A full disk, or one that fails, at any call: the file is as it was, and nothing is left beside it",
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"),
        arguments: [
            ("pwrite64", "ENOSPC"), ("pwrite64", "EIO"), ("fchmod", "EPERM"), ("fsync", "EIO"), ("linkat", "ENOSPC"),
            ("renameat2", "EIO"),
        ])
    func aCallFails(_ name: String, _ error: String) throws {
        for number in 1...3 {
            let bed = try FileTestBed()
            let text = pattern(9, count: 200_000)
            let path = try bed.make("f", .complete, text)
            let call = StormProcess.Call(name: name, number: number, error: error)
            let worker = try StormProcess(bed, "rekey", seed: 0, first: 0, [path.string], until: call)
            var answer = try worker.line()
            while let number = answer, Int(number) != nil { answer = try worker.line() }
            #expect(answer?.hasPrefix("error ") == true, "\(call)")
            #expect(try bed.read(path) == text, "\(call)")
            #expect(try bed.names() == ["f"], "\(call)")
        }
    }

    @Test("After a rotation it is under the active keys")
    func rotated() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUnlessOpen, [1])
        try bed.bag.rotate()
        try bed.keybag.rekey(fileAt: path)
        try bed.bag.forgetRetired()
        #expect(try StoredWraps(path).generations == [2])
        #expect(try bed.read(path) == [1])
        #expect(try ProtectedFile.open(path, keybag: bed.keybag).origin() == .verified)
    }
}
