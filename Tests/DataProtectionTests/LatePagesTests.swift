import ProtectionFormat
import SystemPackage
import Testing

@testable import DataProtection

/// Pages of a mapping that came when their file was locked already.
@Suite struct LatePagesTests {
    private let bed: FileTestBed
    private let text = (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    private var queue: FilePath { bed.keybag.directory.appending("queue") }

    init() throws { bed = try FileTestBed() }

    /// A `complete` file that was locked before these pages of it came. Whoever kept them is gone.
    @discardableResult
    private func keep(_ pages: [(offset: UInt64, bytes: [UInt8])], name: String = "f") throws -> FilePath {
        let path = try bed.make(name, .complete, text)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([1], at: 0)
        let key = try file.latePagesKey()
        try bed.keybag.lock()
        let kept = try LatePagesFile(of: file, under: key, keybag: bed.keybag)
        for page in pages { try page.bytes.lendBytes { try kept.add($0, at: page.offset) } }
        try file.close()
        return path
    }

    /// The file in the queue that has the pages.
    private func data() throws -> FilePath {
        queue.appending(try #require(try queue.names().first { $0.hasSuffix(".late") }))
    }

    private func expected(_ changes: (offset: Int, bytes: [UInt8])...) -> [UInt8] {
        var expected = text
        expected[0] = 1
        for change in changes {
            expected.replaceSubrange(change.offset..<change.offset + change.bytes.count, with: change.bytes)
        }
        return expected
    }

    @Test("The queue writes them into the file after the unlock, later ones over earlier ones, and none behind its end")
    func merged() throws {
        let path = try keep([(4096, [1, 1, 1, 1]), (4097, [2, 2]), (19_999, [3, 3]), (30_000, [4])])
        #expect(try bed.keybag.queuedWork().map(\.kind) == [.merge])
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.waiting])
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.read(path) == expected((4096, [1, 2, 2, 1]), (19_999, [3])))
        #expect(try queue.names() == [])
        try StoredFile(path).expectClosed()
    }

    @Test("A handle that has tried to write in vain knows what they were stored over")
    func reader() throws {
        let path = try bed.make("f", .complete, text)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        let key = try file.latePagesKey()
        try bed.keybag.lock()
        expectError("locked") { try file.write([1], at: 0) }
        let kept = try LatePagesFile(of: file, under: key, keybag: bed.keybag)
        try [7].lendBytes { try kept.add($0, at: 5) }
        try bed.enter(.unlocked)
        try kept.merge(into: file)
        try file.close()
        #expect(try bed.read(path)[5] == 7)
        #expect(try bed.names() == ["f"] && queue.names() == [])
    }

    @Test("Bytes written since are not overwritten: the late pages are saved beside the file, in its class")
    func conflict() throws {
        let path = try keep([(5, [7, 7])])
        try bed.enter(.unlocked)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([9], at: 5)
        try writer.close()
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.read(path) == expected((5, [9])))
        let saved = bed.path("f.late-1")
        #expect(try bed.read(saved) == [0, 0, 0, 0, 0, 7, 7])
        #expect(try ProtectedFileInfo(of: saved).protectionClass == .complete)
        #expect(bed.bag.warnings.unusual == [.latePagesSaved(path, in: saved)])
    }

    @Test("Pages that come back, as after a kill or by an attacker, change nothing")
    func again() throws {
        let path = try keep([(5, [7, 7])])
        let kept = try queue.names().map { (queue.appending($0), try queue.appending($0).contents()) }
        func putBack() throws { for (path, bytes) in kept { try path.overwrite(bytes) } }
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        try putBack()
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.names() == ["f"])
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write([9], at: 5)
        try writer.close()
        try putBack()
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.read(path) == expected((5, [9, 7])))
    }

    /// What somebody may do to them who has no key.
    enum Forgery: CaseIterable {
        case magic, salt, counter, offset, length, sealed, exchanged, firstLeftOut, ofAnotherFile

        func apply(_ bytes: [UInt8], other: [UInt8]) -> [UInt8] {
            var bytes = bytes
            let record = 12 + 28 + 2
            switch self {
            case .magic: bytes[0] ^= 1
            case .salt: bytes[8] ^= 1
            case .counter: bytes[24] ^= 1
            case .offset: bytes[32] ^= 1
            case .length: bytes[40] ^= 1
            case .sealed: bytes[32 + 12 + 13] ^= 1
            case .exchanged:
                let (first, second) = (bytes[32..<32 + record], bytes[(32 + record)...])
                bytes = Array(bytes[..<32] + second + first)
            case .firstLeftOut: bytes.removeSubrange(32..<32 + record)
            case .ofAnotherFile: bytes = other
            }
            return bytes
        }
    }

    @Test("Altered ones are not written, and stay under another name", arguments: Forgery.allCases)
    func forged(_ forgery: Forgery) throws {
        try keep([(5, [8, 8]), (9, [8, 8])], name: "other")
        let other = try data().contents()
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        let path = try keep([(5, [7, 7]), (9, [7, 7])])
        let data = try data()
        try data.overwrite(forgery.apply(try data.contents(), other: other))
        let forged = try data.contents()
        try bed.enter(.unlocked)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(try bed.read(path) == expected())
        if forgery == .magic {
            #expect(outcomes.count == 1 && outcomes.first?.isDamaged == true)
            #expect(try data.contents() == forged)
        } else {
            let kept = queue.appending(try #require(try queue.names().first { $0.hasSuffix(".damaged") }))
            #expect(try outcomes == [.done] && kept.contents() == forged && queue.names().count == 1)
            #expect(bed.bag.warnings.unusual == [.latePagesDamaged(path, in: kept)])
        }
    }

    /// What a power cut leaves of the last of three pages, which was not flushed.
    enum Torn: CaseIterable {
        case zeros, sealedBytes, header

        func apply(_ bytes: [UInt8], from start: Int) -> [UInt8] {
            var bytes = bytes
            switch self {
            case .zeros: bytes.replaceSubrange(start..., with: [UInt8](repeating: 0, count: bytes.count - start))
            case .sealedBytes: bytes[start + 20] ^= 0xFF
            case .header: bytes.replaceSubrange(start..<start + 12, with: [UInt8](repeating: 0, count: 12))
            }
            return bytes
        }
    }

    @Test("Pages before one that does not open are written: those had been flushed", arguments: Torn.allCases)
    func notFlushed(_ torn: Torn) throws {
        let path = try keep([(5, [7, 7]), (9, [7, 7]), (12, [7, 7])])
        let data = try data()
        try data.overwrite(torn.apply(try data.contents(), from: 32 + 2 * (12 + 28 + 2)))
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.read(path) == expected((5, [7, 7]), (9, [7, 7])))
        #expect(try queue.names().map { $0.hasSuffix(".damaged") } == (torn == .zeros ? [] : [true]))
        #expect(bed.bag.warnings.unusual.count == (torn == .zeros ? 0 : 1))
    }

    @Test("One that is not whole at the end was never answered for: the others count", arguments: [1, 20, 30, 41])
    func torn(missing: Int) throws {
        let path = try keep([(5, [7, 7]), (9, [7, 7])])
        let data = try data()
        try data.overwrite(data.contents().dropLast(missing))
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.done])
        #expect(try bed.read(path) == expected((5, [7, 7])))
    }

    @Test("A note without pages has nothing to do; pages of a file that is not there stay")
    func halves() throws {
        let path = try keep([(5, [7, 7])])
        let data = try data()
        let bytes = try data.contents()
        try data.remove()
        try bed.enter(.unlocked)
        #expect(try bed.keybag.performQueuedWork().map(\.outcome) == [.unneeded])
        try path.remove()
        try keep([(5, [7, 7])])
        try path.remove()
        try bed.enter(.unlocked)
        let outcomes = try bed.keybag.performQueuedWork().map(\.outcome)
        #expect(outcomes == [.failed(.system(path, operation: "open", .noSuchFileOrDirectory))])
        #expect(try queue.names().count == 2 && !bytes.isEmpty)
    }

    @Test("Without the key none is kept; the key that seals them opens no file")
    func key() throws {
        let path = try bed.make("f", .complete, text)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        let key = try file.latePagesKey()
        try bed.keybag.lock()
        let kept = try LatePagesFile(of: file, under: key, keybag: bed.keybag)
        try [5].lendBytes { try kept.add($0, at: 0) }
        kept.forgetKey()
        let error = #expect(throws: DataProtectionError.self) { try [5].lendBytes { try kept.add($0, at: 0) } }
        #expect(error?.errno.rawValue == 126)
        expectError("locked") { _ = try file.latePagesKey() }
        kept.remove()
        #expect(try queue.names() == [])
        try file.close()
    }
}

extension QueuedWorkResult.Outcome {
    fileprivate var isDamaged: Bool { if case .failed(.damaged) = self { true } else { false } }
}
