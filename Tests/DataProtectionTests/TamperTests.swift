import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Stored bytes are altered in every way that FORMAT.md §5 names: what was stored last, or a refusal that names the layer.
@Suite struct TamperTests {
    /// Files of every form.
    enum Form: String, CaseIterable, Sendable {
        case inlineNew = "inline, generation 1"
        case inlineEdited = "inline, edited"
        case chunksNew = "3 chunks, generation 1"
        case chunksLarge = "3 chunks of 64 KiB, generation 1"
        case chunksEdited = "chunks, edited in place"
        case holes = "with holes"

        var size: Int { self == .chunksLarge ? 140_000 : self == .inlineNew || self == .inlineEdited ? 700 : 10_000 }
        /// How many bytes of each head are never only sampled: two forms have no head that another one has not.
        var heads: Int { self == .chunksLarge || self == .holes ? 0 : 900 }
        var step: Int { self == .chunksLarge ? 1009 : 61 }
        var protectionClass: ProtectionClass {
            [.inlineNew, .chunksEdited].contains(self) ? .completeUnlessOpen : .complete
        }

        func make(_ bed: FileTestBed, _ name: String, _ protectionClass: ProtectionClass, seed: UInt64) throws
            -> FilePath
        {
            let bytes = pattern(seed, count: size)
            switch self {
            case .inlineNew, .chunksNew: return try bed.makeWhole(name, protectionClass, bytes, isSmall: true)
            case .chunksLarge: return try bed.makeWhole(name, protectionClass, bytes)
            case .inlineEdited: return try bed.make(name, protectionClass, bytes)
            case .chunksEdited:
                let path = try bed.makeWhole(name, protectionClass, bytes, isSmall: true)
                try edit(bed, path, [.write(offset: 5000, count: 100, seed: seed), .append(count: 3000, seed: seed)])
                return path
            case .holes:
                let path = try bed.make(name, protectionClass, bytes)
                try edit(
                    bed, path,
                    [
                        .truncate(30_000), .write(offset: 41_000, count: 3000, seed: seed), .truncate(60_000),
                        .write(offset: 70_000, count: 10, seed: seed),
                    ])
                return path
            }
        }

        private func edit(_ bed: FileTestBed, _ path: FilePath, _ steps: [FileStep]) throws {
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            for step in steps {
                try file.perform(step)
                try file.sync()
            }
            try file.close()
        }
    }

    /// Heads are altered with their check as it was, and with the check made right.
    @Test(arguments: Form.allCases)
    func everyByte(_ form: Form) throws {
        let bed = try FileTestBed()
        let made = try form.make(bed, "made", form.protectionClass, seed: 3)
        let text = try bed.read(made)
        let bench = try TamperBench(bed, "f", try made.contents())
        #expect(bench.stored.count == Int(try StoredFile(made).extent))
        let isFirst = try StoredFile(made).heads.head.generation == 1
        for place in bench.positions(step: form.step, heads: form.heads) {
            let answer = try bench.answer(bench.flipped(place), at: place)
            if isFirst, place < 4096 {
                #expect(answer == .refused("damaged: head"), "byte \(place)")
            } else if place < 8192 {
                #expect(answer == .plaintext(text), "byte \(place): the other head is there")
                #expect(bench.verdict == .damaged, "byte \(place)")
            } else {
                // The home of a hole is nobody's.
                let isUnreferenced = form == .holes && answer == .plaintext(text)
                #expect(answer == .refused("damaged: chunk") || isUnreferenced, "byte \(place)")
                #expect(bench.verdict == (isUnreferenced ? .whole : .damaged), "byte \(place)")
            }
        }
        print("TamperTests, \(form.rawValue), flips: \(bench.summary)")
    }

    @Test(arguments: Form.allCases)
    func everyByteOfAHeadWithItsCheckMadeRight(_ form: Form) throws {
        let bed = try FileTestBed()
        let made = try form.make(bed, "made", form.protectionClass, seed: 3)
        let text = try bed.read(made)
        let bench = try TamperBench(bed, "f", try made.contents())
        let heads = try StoredFile(made).heads
        for place in bench.positions(0..<heads.slots[0].count, step: 13, heads: form.heads)
        where place < Head.length - 32 {
            let (bytes, offset) = try bench.headFlipped(place)
            let answer = try bench.answer(bytes, at: offset)
            // A head that says that it is older than the other one is not in force.
            let isOther = heads.head.generation > 1 && answer == .plaintext(text)
            guard !isOther else { continue }
            guard case .refused(let name) = answer else {
                Issue.record("byte \(place): plaintext of a head that was altered")
                continue
            }
            // Without its magic a file of one head looks like anything; with another head it is one of ours.
            if name == "notProtected" { #expect(heads.head.generation == 1 && place < 8, "byte \(place)") }
        }
        print("TamperTests, \(form.rawValue), heads with their check: \(bench.summary)")
        var expected: Set<String> = [
            "damaged: head", "damaged: wrap record", "damaged: key commitment", "damaged: content record",
            "unsupported",
            "foreignKeybag", "keyLost",
        ]
        if form == .inlineNew || form == .inlineEdited { expected.insert("damaged: inline file") }
        #expect(expected.subtracting(bench.answers.keys).isEmpty, "layers that never refused")
    }

    @Test(arguments: Form.allCases)
    func everyLength(_ form: Form) throws {
        let bed = try FileTestBed()
        let made = try form.make(bed, "made", .complete, seed: 4)
        let bench = try TamperBench(bed, "f", try made.contents())
        let borders = [0, 1, 7, 8, 4095, 4096, 8191, bench.stored.count - 1].filter { $0 < bench.stored.count }
        for length in borders + bench.positions(step: form.step, heads: 0) {
            let answer = try bench.answer(cutTo: length)
            if length == 0 {
                #expect(answer == .refused("notProtected"))
            } else {
                guard case .refused(let name) = answer, name.hasPrefix("damaged: ") else {
                    Issue.record("cut to \(length): \(answer)")
                    continue
                }
            }
        }
        print("TamperTests, \(form.rawValue), cut: \(bench.summary)")
    }

    @Test(arguments: Form.allCases)
    func appended(_ form: Form) throws {
        let bed = try FileTestBed()
        let made = try form.make(bed, "made", .complete, seed: 5)
        let text = try bed.read(made)
        let bench = try TamperBench(bed, "f", try made.contents())
        for count in [1, 28, 4095, 4096, 4124, 10_000, 70_000] {
            for bytes in [pattern(1, count: count), [UInt8](repeating: 0, count: count)] {
                #expect(try bench.answer(bench.stored + bytes) == .plaintext(text), "\(count) bytes more")
                let isZero = bytes.allSatisfy { $0 == 0 }
                #expect(bench.verdict == (isZero ? .unclosed : .doubtful), "\(count) bytes more")
            }
        }
        #expect(try bench.answer(bench.stored + bench.stored) == .plaintext(text), "the file behind itself")
    }

    /// Chunks and heads where they do not belong: from elsewhere in the file, or from another file of the same keybag.
    @Test(arguments: Form.allCases)
    func exchanged(_ form: Form) throws {
        let bed = try FileTestBed()
        let made = try form.make(bed, "made", .complete, seed: 6)
        let other = try form.make(bed, "other", .complete, seed: 7).contents()
        let text = try bed.read(made)
        let bench = try TamperBench(bed, "f", try made.contents())
        let layout = try StoredFile(made).state.layout
        let whole = layout.chunkSize + ChunkLayout.overhead
        func chunk(_ index: Int, of bytes: [UInt8]) -> [UInt8] {
            Array(bytes[Int(layout.home(UInt64(index)))...].prefix(whole))
        }
        if bench.stored.count > 8192 {
            let home = (0..<3).map { Int(layout.home(UInt64($0))) }
            var swapped = bench.stored
            swapped.replaceSubrange(home[0]..<home[0] + whole, with: chunk(1, of: bench.stored))
            swapped.replaceSubrange(home[1]..<home[1] + whole, with: chunk(0, of: bench.stored))
            #expect(try bench.answer(swapped) == .refused("damaged: chunk"), "two chunks swapped")
            for index in 0..<2 {
                for bytes in [
                    [UInt8](repeating: 0, count: whole), chunk(index, of: other), chunk(1 - index, of: bench.stored),
                ] {
                    #expect(try bench.answer(bytes, at: home[index]) == .refused("damaged: chunk"), "chunk \(index)")
                }
            }
            #expect(
                try bench.answer(Array(other[..<8192]), at: 0) == .refused("damaged: chunk"), "both heads of another")
        } else if bench.stored.count == 8192 {
            let answer = try bench.answer(Array(other[..<8192]), at: 0)
            #expect(answer == .plaintext(try bed.read(bed.path("other"))), "all of another file: that file")
        }
        // A foreign head in one slot.
        let foreign = Array(other[..<Head.length])
        #expect(try bench.answer(foreign + bench.stored.dropFirst(Head.length)) != .plaintext(text))
        let second = Array(bench.stored[..<Head.length]) + foreign + bench.stored.dropFirst(8192)
        #expect(try bench.answer(second) == .refused("damaged: head"))
        // A slot that is zero: as if it had never been written, or torn.
        let zeros = [UInt8](repeating: 0, count: Head.length)
        let isFirst = try StoredFile(made).heads.head.generation == 1
        let withoutFirst = try bench.answer(zeros, at: 0)
        #expect(isFirst ? withoutFirst != .plaintext(text) : withoutFirst == .plaintext(text))
        #expect(try bench.answer(zeros, at: Head.length) == .plaintext(text))
    }
}
