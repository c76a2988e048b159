import Glibc
import ProtectionFormat
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// What another program appends while a file has a writer, or after its writer was killed: nobody overwrites or cuts a byte of it.
@Suite("Bytes appended beside a writer, or behind one that was killed")
struct ForeignTailTests {
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    /// As `>>` in a shell does it, whatever the end is by now.
    private func append(_ bytes: [UInt8], to path: FilePath) throws {
        let file = try LowerFile(path, flags: O_WRONLY | O_APPEND)
        try bytes.withUnsafeBytes { bytes in
            try #require(Glibc.write(file.descriptor, bytes.baseAddress, bytes.count) == bytes.count)
        }
        try file.close()
    }

    /// What was moved out of a file, in the order in which that was done.
    private func kept(from name: String) throws -> [UInt8] {
        var all: [UInt8] = []
        var number = 1
        while try bed.names().contains("\(name).appended-\(number)") {
            all += try bed.path("\(name).appended-\(number)").contents()
            number += 1
        }
        return all
    }

    /// What another program appends. The first byte is never zero, because zeros at the end of an unclosed file are room for records.
    struct Appended: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let bytes: [UInt8]

        init(_ name: String, _ bytes: [UInt8]) { (testDescription, self.bytes) = (name, bytes) }

        static let all = [
            Appended("a byte", [7]),
            Appended("three bytes", [1, 0, 2]),
            Appended("a line", Array("a line of another program\n".utf8)),
            Appended("100 bytes", binary(100)),
            Appended("as many as a sealed chunk has", binary(4124)),
            Appended("20,000 bytes", binary(20_000)),
            Appended("zeros between two bytes", [9] + [UInt8](repeating: 0, count: 5000) + [9]),
        ]

        private static func binary(_ count: Int) -> [UInt8] { [0xFF] + pattern(UInt64(count), count: count - 1) }
    }

    /// What a killed writer has left.
    enum Leftover: String, CaseIterable, Sendable {
        case nothing, chunks, records, chunksAndRecords, afterCut

        func make(_ file: ProtectedFile) throws {
            switch self {
            case .nothing: try file.perform(.write(offset: 0, count: 10, seed: 2))
            case .chunks: try file.perform(.append(count: 300_000, seed: 2))
            case .records: try overwrite(file)
            case .chunksAndRecords:
                try overwrite(file)
                try file.perform(.append(count: 100_000, seed: 2))
            case .afterCut:
                try file.perform(.truncate(5000))
                try file.sync()
            }
        }

        private func overwrite(_ file: ProtectedFile) throws {
            for number: UInt64 in 0..<3 {
                try file.perform(.write(offset: number * 2500, count: 3000, seed: number))
                try file.sync()
            }
        }
    }

    @Test(
        "Bytes appended behind a killed writer's leftovers are kept, and nothing else is",
        arguments: Leftover.allCases, Appended.all)
    func behindAKilledWriter(_ leftover: Leftover, _ appended: Appended) throws {
        let bytes = appended.bytes
        let path = try bed.make("f", .complete, pattern(1, count: 12_000))
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try leftover.make(file)
        let killed = try bed.makePlain("g", try path.contents())
        file.discard()
        let text = try bed.read(killed)
        try append(bytes, to: killed)
        #expect(try bed.read(killed) == text)
        let verification = try #require(try bed.keybag.verify(killed))
        #expect(verification.findings.contains(.appended(byteCount: UInt64(bytes.count))), "\(verification.findings)")
        let next = try ProtectedFile.open(killed, .readWrite, keybag: bed.keybag)
        try next.perform(.append(count: 10, seed: 9))
        try next.close()
        #expect(try bed.path("g.appended-1").contents() == bytes)
        #expect(try bed.read(killed) == text + pattern(9, count: 10))
        try StoredFile(killed).expectClosed()
        #expect(try bed.names() == ["f", "g", "g.appended-1"])
    }

    @Test("A dead writer's leavings without foreign bytes leave no file beside", arguments: Leftover.allCases)
    func nothingForeign(_ leftover: Leftover) throws {
        for (name, isLarge) in [("small", false), ("large", true)] {
            let text = pattern(1, count: 12_000)
            let path = isLarge ? try bed.makeWhole(name, .complete, text) : try bed.make(name, .complete, text)
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            try leftover.make(file)
            let killed = try bed.makePlain("killed \(name)", try path.contents())
            file.discard()
            let verdict = try bed.keybag.verify(killed)?.verdict
            #expect(verdict == (leftover == .nothing ? .whole : .unclosed), "\(name)")
            let next = try ProtectedFile.open(killed, .readWrite, keybag: bed.keybag)
            try next.perform(.append(count: 10, seed: 9))
            try next.close()
            try StoredFile(killed).expectClosed()
        }
        #expect(try bed.names().count == 4)
    }

    @Test("Bytes behind a chunk of 64 KiB that a killed writer left are kept with that chunk", arguments: Appended.all)
    func behindALargeChunk(_ appended: Appended) throws {
        let bytes = appended.bytes
        let path = try bed.makeWhole("f", .complete, pattern(1, count: 70_000))
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.perform(.append(count: 600_000, seed: 2))
        let killed = try bed.makePlain("g", try path.contents())
        file.discard()
        try append(bytes, to: killed)
        let next = try ProtectedFile.open(killed, .readWrite, keybag: bed.keybag)
        try next.perform(.truncate(5))
        try next.close()
        #expect(try bed.path("g.appended-1").contents().suffix(bytes.count) == bytes[...])
    }

    /// What a writer does next.
    enum Next: String, CaseIterable, Sendable {
        case nothing, inline, becomesChunks, oneChunk, manyChunks, overwrite, overwriteMuch, cut, cutToNothing, grow

        var step: FileStep? {
            switch self {
            case .nothing: nil
            case .inline: .write(offset: 0, count: 200, seed: 3)
            case .becomesChunks: .write(offset: 0, count: 6000, seed: 3)
            case .oneChunk: .write(offset: 16_384, count: 4096, seed: 3)
            case .manyChunks: .append(count: 200_000, seed: 3)
            case .overwrite: .write(offset: 3, count: 50, seed: 3)
            case .overwriteMuch: .write(offset: 0, count: 40_000, seed: 3)
            case .cut: .truncate(50)
            case .cutToNothing: .truncate(0)
            case .grow: .truncate(100_000)
            }
        }
    }

    @Test(
        "Bytes appended to a file that is open for writing are kept through any next step of its writer",
        arguments: Next.allCases)
    func besideAWriter(_ next: Next) throws {
        // Of seven kinds another one for each of the six files, and each day.
        var kinds = Appended.all[...]
        kinds = kinds.suffix(Int(Effort.seed % 7)) + kinds
        for (name, size) in [("inline", 100), ("border", 16_384), ("chunks", 18_000)] {
            for isWhole in [false, true] {
                let name = "\(name) \(isWhole)"
                let bytes = kinds.removeFirst().bytes
                let text = pattern(1, count: size)
                let path =
                    isWhole ? try bed.makeWhole(name, .none, text, isSmall: true) : try bed.make(name, .none, text)
                let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
                var model = ModelFile(text)
                var all: [UInt8] = []
                // Before the first commit of the handle, before the second one, and before the close.
                for seed: UInt64 in 0..<3 {
                    let first = FileStep.write(offset: 1, count: 5, seed: seed)
                    if seed == 0 { try file.beginWriting() }
                    try append(bytes, to: path)
                    all += bytes
                    for step in [first, next.step].compactMap({ $0 }) {
                        try file.perform(step)
                        model.apply(step)
                    }
                    try file.sync()
                }
                try append(bytes, to: path)
                try file.close()
                #expect(try kept(from: name) == all + bytes, "\(name)")
                #expect(try bed.read(path) == model.bytes, "\(name)")
                try StoredFile(path).expectClosed("\(name)")
            }
        }
    }

    @Test(
        "Appended at any moment of a file's life, killed writers included, every byte is kept",
        arguments: StormProfile.allCases)
    func anyMoment(_ profile: StormProfile) throws {
        var generator = Effort.generator("ForeignTailTests, \(profile)")
        for run in 0..<Effort.count(1, 40) {
            var name = "\(run)"
            var path = try bed.make(name, .none)
            var model = ModelFile()
            var (all, moved): ([UInt8], [UInt8]) = ([], [])
            var file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            for number in 0..<30 {
                for step in profile.steps(ofCommit: number, seed: generator.next() >> 16) {
                    if Bool.random(using: &generator) {
                        let count = Int.random(in: 0...6000, using: &generator)
                        let bytes = [0xFF] + pattern(generator.next(), count: count)
                        try append(bytes, to: path)
                        all += bytes
                    }
                    try file.perform(step)
                    model.apply(step)
                }
                switch Int.random(in: 0..<10, using: &generator) {
                case 0:
                    // Killed: the bytes are what they are, and what was not committed is gone.
                    try file.sync()
                    let uncommitted = FileStep.append(count: .random(in: 1...90_000, using: &generator), seed: 1)
                    try file.perform(uncommitted)
                    moved += try kept(from: name)
                    name += "k"
                    path = try bed.makePlain(name, try path.contents())
                    file.discard()
                    file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
                case 1:
                    try file.close()
                    file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
                case 2: break
                default: try file.sync()
                }
            }
            // The last writer may have been killed. Only the next one looks for such bytes, at its first write.
            let last = FileStep.write(offset: 0, count: 1, seed: 1)
            try file.perform(last)
            model.apply(last)
            try file.close()
            moved += try kept(from: name)
            #expect(moved == all, "run \(run): \(moved.count) of \(all.count) bytes")
            #expect(try bed.read(path) == model.bytes, "run \(run)")
        }
    }

    @Test("Bytes appended to a file that this handle has created are kept beside it, too")
    func beside() throws {
        let path = bed.path("made")
        let file = try ProtectedFile.create(path, as: .none, keybag: bed.keybag)
        try append([1, 2, 3], to: path)
        try file.perform(.write(offset: 0, count: 9000, seed: 2))
        try file.close()
        #expect(try kept(from: "made") == [1, 2, 3])
    }

    @Test("The name of the kept bytes is cut where that of the file is too long")
    func longName() throws {
        let path = try bed.make(String(repeating: "n", count: 250), .none, pattern(1, count: 100))
        try append([1, 2, 3], to: path)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.perform(.write(offset: 0, count: 10, seed: 2))
        try file.close()
        #expect(try bed.path(String(repeating: "n", count: 244) + ".appended-1").contents() == [1, 2, 3])
    }

    @Test("A piece of a chunk at the end is kept: nothing shows that it is one")
    func tornChunk() throws {
        let path = try bed.make("f", .complete, pattern(1, count: 12_288))
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.perform(.append(count: 40_960, seed: 2))
        let stored = try path.contents()
        file.discard()
        let torn = try bed.makePlain("g", Array(stored.dropLast(1000)))
        let next = try ProtectedFile.open(torn, .readWrite, keybag: bed.keybag)
        try next.perform(.append(count: 10, seed: 9))
        try next.close()
        #expect(try bed.path("g.appended-1").contents() == stored.suffix(4124).dropLast(1000))
        #expect(try bed.read(torn) == pattern(1, count: 12_288) + pattern(9, count: 10))
        #expect(try StoredFile(torn).length == StoredFile(torn).extent)
    }

    @Test(
        "A class change while another program appends to a small file loses nothing, and nor does the writer beside it")
    func classChangeBesideAWriter() throws {
        let path = try bed.makeWhole("f", .none, pattern(1, count: 100), isSmall: true)
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.beginWriting()
        // The second head of the class change makes the file longer: no foreign bytes.
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        try file.perform(.write(offset: 0, count: 9000, seed: 2))
        try append([1, 2, 3], to: path)
        try file.close()
        #expect(try kept(from: "f") == [1, 2, 3])
        #expect(try bed.read(path) == pattern(2, count: 9000))
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
    }
}
