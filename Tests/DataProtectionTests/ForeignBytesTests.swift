import Glibc
import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedTrees

/// What other programs appended to a protected file, and what a damaged head hides: no writer discards either.
@Suite("Bytes that no writer of ours can answer for")
struct ForeignBytesTests {
    private let bed: FileTestBed
    private let line = Array("a line of another program\n".utf8)
    init() throws { bed = try FileTestBed() }

    private func findings(_ path: FilePath) throws -> [FileVerification.Finding] {
        try #require(try bed.keybag.verify(path)).findings
    }

    private func append(_ bytes: [UInt8], to path: FilePath) throws { try path.overwrite(try path.contents() + bytes) }

    private func write(_ path: FilePath) throws {
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.perform(.append(count: 10, seed: 9))
        try file.close()
    }

    @Test(
        "An appended line is found, and the next writer moves it into a file beside",
        arguments: [0, 10, 3584, 3585, 4096, 300_000])
    func appendedLine(_ size: Int) throws {
        let text = pattern(1, count: size)
        for path in [
            try bed.make("handle", .complete, text), try bed.makeWhole("large", .complete, text),
            try bed.makeWhole("small", .none, text, isSmall: true),
        ] {
            #expect(try ProtectedFile.open(path, keybag: bed.keybag).findings() == [])
            try append(line, to: path)
            let result = try #require(try bed.keybag.verify(path))
            #expect(
                result.findings == [.appended(byteCount: UInt64(line.count))] && result.verdict == .doubtful,
                "\(result)")
            #expect(try ProtectedFile.open(path, keybag: bed.keybag).findings() == result.findings)
            #expect(try bed.read(path) == text)
            try write(path)
            #expect(try bed.read(path) == text + pattern(9, count: 10))
            try StoredFile(path).expectClosed()
            let kept = FilePath(path.string + ".appended-1")
            #expect(try kept.contents() == line && kept.mode() == 0o600)
            #expect(try findings(path) == [])
        }
        #expect(try bed.names().count == 6)
    }

    @Test("Zeros that were appended before other bytes are kept with them")
    func zeros() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 5000))
        let appended = [UInt8](repeating: 0, count: 10_000) + line
        try append(appended, to: path)
        try write(path)
        #expect(try bed.path("f.appended-1").contents() == appended)
    }

    @Test("Holes in appended bytes take no place in the file beside either")
    func holes() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 5000))
        let hole: UInt64 = 8 << 20
        let file = try LowerFile(path, flags: O_RDWR)
        let start = try file.length()
        try file.write(line, at: start + hole)
        try file.truncate(to: start + 2 * hole)
        try file.close()
        try write(path)
        let kept = try LowerFile(bed.path("f.appended-1"), flags: O_RDONLY)
        #expect(try kept.length() == 2 * hole)
        #expect(try kept.status().st_blocks * 512 < 1 << 20, "holes of 16 MiB")
        var expected = [UInt8](repeating: 0, count: Int(2 * hole))
        expected.replaceSubrange(Int(hole)..<Int(hole) + line.count, with: line)
        #expect(try kept.bytes(at: 0, count: expected.count) == expected)
    }

    @Test("A name that is taken stays what it is")
    func nameIsFree() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 5000))
        let other = try bed.makePlain("f.appended-1", [7])
        try append(line, to: path)
        try write(path)
        #expect(try other.contents() == [7])
        #expect(try bed.path("f.appended-2").contents() == line)
    }

    @Test(
        "An appended line survives every change and every replacement of the file",
        arguments: ["truncate", "class", "rekey", "unprotect", "replace", "read"], [10, 20_000])
    func everyWriter(_ change: String, _ size: Int) throws {
        let path = try bed.makeWhole("f", .complete, pattern(1, count: size), isSmall: true)
        try append(line, to: path)
        switch change {
        case "truncate":
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            try file.truncate(to: 3)
            try file.close()
        case "class": try bed.keybag.setProtection(.none, ofItemAt: path)
        case "rekey": try bed.keybag.rekey(fileAt: path)
        case "unprotect": try bed.keybag.unprotect(path)
        case "replace": _ = try bed.makeWhole("f", .none, [1, 2, 3])
        default: _ = try bed.read(path)
        }
        let kept = (try? bed.path("f.appended-1").contents()) ?? []
        #expect(try kept == line || path.contents().suffix(line.count) == line[...], "\(change)")
    }

    @Test("A finished file that takes the place of another one, as a download does, leaves the line beside it")
    func published() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 20_000))
        try append(line, to: path)
        let stored = try path.contents()
        let new = try bed.makeWhole("new", .complete, [1, 2, 3])
        let writer = try ProtectedFile.open(bed.make("g", .complete, [4]), .readWrite, keybag: bed.keybag)
        try writer.write([5], at: 0)
        expectError("busy") {
            try ProtectedFile.publish(new, as: bed.path("g"), replacing: true, raiseTo: nil, keybag: bed.keybag)
        }
        try writer.close()
        expectError("exists") {
            try ProtectedFile.publish(new, as: path, replacing: false, raiseTo: nil, keybag: bed.keybag)
        }
        #expect(try path.contents() == stored)
        try ProtectedFile.publish(new, as: path, replacing: true, raiseTo: nil, keybag: bed.keybag)
        #expect(try bed.names() == ["f", "f.appended-1", "g"])
        #expect(try bed.path("f.appended-1").contents() == line)
        #expect(try bed.read(path) == [1, 2, 3])
    }

    @Test("Leftovers of our own killed writer are not kept: nobody needs them")
    func ownLeftovers() throws {
        let path = try bed.make("f", .complete, [1])
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write(pattern(2, count: 300_000), at: 0)
        // As a kill leaves it now: chunks at home that no commit names.
        let killed = try bed.makePlain("g", try path.contents())
        let both = try bed.makePlain("h", try path.contents() + line)
        file.discard()
        guard case .excess? = try findings(killed).first else {
            Issue.record("\(try findings(killed))")
            return
        }
        #expect(try bed.keybag.verify(killed)?.verdict == .unclosed)
        for path in [killed, both] { try write(path) }
        #expect(try bed.names() == ["f", "g", "h", "h.appended-1"])
        #expect(try bed.path("h.appended-1").contents().suffix(line.count) == line[...])
    }

    @Test("A line behind the records of a killed writer is kept")
    func behindRecords() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 12_000))
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        for number in 0..<3 {
            try file.write(pattern(7, count: 3000), at: UInt64(number * 2500))
            try file.sync()
        }
        let text = try bed.read(path)
        let killed = try bed.makePlain("g", try path.contents() + line)
        try file.close()
        #expect(try bed.keybag.verify(killed)?.verdict == .doubtful)
        #expect(try bed.read(killed) == text)
        try write(killed)
        #expect(try bed.path("g.appended-1").contents() == line)
        #expect(try bed.read(killed) == text + pattern(9, count: 10))
    }

    // MARK: damaged heads

    /// A file whose writer was killed, with the head in force altered, and what was stored in it.
    private func withDamagedHead(_ path: FilePath, place: Int, commits: Int) throws -> (path: FilePath, head: Int) {
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        for number in 0..<commits {
            try file.write(pattern(UInt64(number + 2), count: 50), at: 0)
            try file.sync()
        }
        var stored = try path.contents()
        let head = try StoredFile(path).heads.inForce
        try file.close()
        stored[head * Head.length + place] ^= 1
        return (try bed.makePlain("damaged", stored), head)
    }

    @Test(
        "A damaged head that led to later commits: they are said to be unreachable, and the next writer keeps what is left of them"
    )
    func hiddenRecords() throws {
        let old = pattern(1, count: 12_000)
        let (path, head) = try withDamagedHead(try bed.make("f", .complete, old), place: 100, commits: 3)
        let stored = try path.contents()
        let result = try #require(try bed.keybag.verify(path))
        #expect(result.findings == [.commitsUnreachable(head: head, recordCount: 3)] && result.verdict == .damaged)
        #expect(try bed.read(path) == old)
        let extent = Int(try StoredFile(path).extent)
        try write(path)
        let kept = try bed.path("damaged.remains-1").contents()
        #expect(kept.count == stored.count && kept.prefix(8192) == stored.prefix(8192))
        #expect(kept.dropFirst(extent) == stored.dropFirst(extent))
        #expect(try bed.read(path) == old + pattern(9, count: 10))
        #expect(try findings(path) == [])
    }

    @Test("The same for small files, whose contents lie in the head", arguments: [true, false])
    func hiddenInline(isWhole: Bool) throws {
        let old = pattern(1, count: 100)
        let made = isWhole ? try bed.makeWhole("f", .complete, old, isSmall: true) : try bed.make("f", .complete, old)
        let (path, head) = try withDamagedHead(made, place: 450, commits: 1)
        #expect(try findings(path) == [.commitsUnreachable(head: head, recordCount: 0)])
        #expect(try bed.read(path) == old)
        let slot = try path.contents()[(head * Head.length)..<((head + 1) * Head.length)]
        try bed.keybag.setProtection(.none, ofItemAt: path)
        let kept = try bed.path("damaged.remains-1").contents()
        #expect(kept[(head * Head.length)..<((head + 1) * Head.length)] == slot)
    }

    @Test("A damaged head of a file that was closed hides nothing")
    func nothingHidden() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 100))
        for head in [0, 1] {
            let stored = try path.contents()
            var altered = stored
            altered[head * Head.length + 450] ^= 1
            try path.overwrite(altered)
            #expect(try findings(path) == [.headDamaged(index: head)])
            try write(path)
        }
        #expect(try bed.names() == ["f"])
    }
}
