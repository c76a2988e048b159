import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// The redo area of a file whose writer died: its records are altered.
@Suite struct TamperAreaTests {
    /// A dead writer's file, and what it was after each commit.
    struct Dead {
        let stored: [UInt8]
        /// The text of the opening head, then after each record.
        let texts: [[UInt8]]
        /// Where each record begins; one more: the end of the last.
        let records: [Int]

        init(_ bed: FileTestBed) throws {
            let path = try bed.make("dead", .complete, pattern(1, count: 12_000))
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            var texts = [try bed.read(path)]
            var records: [Int] = []
            for number in 0..<4 {
                try file.write(pattern(UInt64(number), count: 3000), at: UInt64(number * 2500))
                if number == 2 { try file.perform(.append(count: 500, seed: 3)) }
                try file.sync()
                texts.append(try bed.read(path))
                let state = try StoredFile(path).state
                if records.isEmpty { records = [Int(state.redoOffset)] }
                records.append(Int(state.areaEnd))
            }
            // As it is now: what a kill leaves.
            stored = try path.contents()
            self.texts = texts
            self.records = records
            try file.close()
        }
    }

    @Test func isReadAsItWasLeft() throws {
        let bed = try FileTestBed()
        let dead = try Dead(bed)
        let bench = try TamperBench(bed, "f", dead.stored)
        #expect(dead.records.count == 5 && Set(dead.texts).count == 5)
        #expect(try bench.answer([], at: 0) == .plaintext(dead.texts.last!))
        #expect(bench.verdict == .unclosed, "the writer is dead, and nothing is lost")
        #expect(try ProtectedFileInfo(of: bench.path).size == Int64(dead.texts.last!.count))
    }

    /// The commit before the record that was altered, or the file as a whole refused; never anything else.
    @Test func flips() throws {
        let bed = try FileTestBed()
        let dead = try Dead(bed)
        let bench = try TamperBench(bed, "f", dead.stored)
        for place in bench.positions(dead.records[0]..<dead.records[4], step: Effort.level < 7 ? 23 : 7) {
            let record = dead.records.lastIndex { $0 <= place }!
            let answer = try bench.answer(bench.flipped(place), at: place)
            #expect(answer == .plaintext(dead.texts[record]), "byte \(place) in record \(record)")
            let isFound = bench.verdict == .doubtful || bench.verdict == .damaged
            #expect(isFound, "byte \(place) in record \(record)")
        }
        for place in dead.records[4]..<bench.stored.count where place % (Effort.level < 7 ? 241 : 61) == 0 {
            #expect(
                try bench.answer(bench.flipped(place), at: place) == .plaintext(dead.texts[4]), "behind the records")
        }
        print("TamperAreaTests, flips: \(bench.summary)")
    }

    /// The same with the record's keyless check made right, as anybody can.
    @Test func flipsWithTheCheckMadeRight() throws {
        let bed = try FileTestBed()
        let dead = try Dead(bed)
        let bench = try TamperBench(bed, "f", dead.stored)
        for (record, start) in dead.records.dropLast().enumerated() {
            let end = dead.records[record + 1]
            for place in bench.positions(start..<end - 32, step: 5) + bench.positions(start..<start + 200, step: 2) {
                var bytes = Array(dead.stored[start..<end - 32])
                bytes[place - start] ^= 1 << UInt8(place % 8)
                let answer = try bench.answer(bytes + (try Digest.sha256(bytes)), at: start)
                if case .refused(let name) = answer {
                    #expect(name.hasPrefix("damaged: "), "byte \(place - start) of record \(record)")
                } else {
                    // Magic, file id, epoch or length: no record of this area begins here. A chunk that a later record
                    // has too is nobody's.
                    let isEnd = place - start < 48 && answer == .plaintext(dead.texts[record])
                    let isShadowed = place - start > 48 && answer == .plaintext(dead.texts[4])
                    #expect(isEnd || isShadowed, "byte \(place - start) of record \(record)")
                }
            }
        }
        print("TamperAreaTests, records with their check: \(bench.summary)")
        let expected: Set = ["damaged: redo record", "damaged: content record", "damaged: chunk"]
        #expect(expected.subtracting(bench.answers.keys).isEmpty, "layers that never refused")
    }

    @Test func everyLength() throws {
        let bed = try FileTestBed()
        let dead = try Dead(bed)
        let bench = try TamperBench(bed, "f", dead.stored)
        // The area is as long again behind its last record, and all of it is the same there.
        let lengths =
            bench.positions(dead.records[0]..<dead.records[4], step: Effort.level < 7 ? 61 : 29)
            + bench.positions(dead.records[4]..<dead.stored.count, step: Effort.level < 7 ? 1999 : 499)
        for length in lengths {
            let record = dead.records.lastIndex { $0 <= length }!
            #expect(try bench.answer(cutTo: length) == .plaintext(dead.texts[record]), "cut to \(length)")
        }
    }

    /// Records in another order, twice, from an earlier area, or from another file.
    @Test func exchanged() throws {
        let bed = try FileTestBed()
        let dead = try Dead(bed)
        let bench = try TamperBench(bed, "f", dead.stored)
        let records = (0..<4).map { Array(dead.stored[dead.records[$0]..<dead.records[$0 + 1]]) }
        let head = Array(dead.stored[..<dead.records[0]])
        #expect(try bench.answer(head + records[1]) == .refused("damaged: redo record"), "the first one left out")
        #expect(try bench.answer(head + records[0] + records[0]) == .refused("damaged: redo record"), "one twice")
        #expect(try bench.answer(head + records[0] + records[2]) == .refused("damaged: redo record"), "one left out")
        let other = try FileTestBed()
        let foreign = try Dead(other)
        let stranger = Array(foreign.stored[foreign.records[0]..<foreign.records[1]])
        #expect(try bench.answer(head + stranger) == .plaintext(dead.texts[0]), "another file's record")
    }

    /// A writer that finds an altered area goes on from what is in force, or refuses.
    @Test func nextWriter() throws {
        let bed = try FileTestBed()
        let dead = try Dead(bed)
        for place in Effort.slice(of: stride(from: dead.records[0], to: dead.records[4], by: 11)) {
            var bytes = dead.stored
            bytes[place] ^= 1
            let path = try bed.makePlain("f", bytes)
            let record = dead.records.lastIndex { $0 <= place }!
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            try file.perform(.append(count: 10, seed: 9))
            try file.close()
            #expect(try bed.read(path) == dead.texts[record] + pattern(9, count: 10), "byte \(place)")
            try StoredFile(path).expectClosed()
        }
    }
}
