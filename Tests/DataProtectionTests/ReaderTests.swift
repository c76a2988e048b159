import Foundation
import ProtectionKeys
import StormScript
import Synchronization
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// Readers take no lock: beside a writer they see every chunk old or new, never *damaged*.
@Suite struct ReaderTests {
    /// A file of `count` chunks of 4 KiB, each filled with the number of the commit that wrote it last.
    private static let count = 40
    private static let chunk = 4096

    private static func filled(_ number: UInt32) -> [UInt8] {
        (0..<chunk / 4).flatMap { _ in withUnsafeBytes(of: number.littleEndian) { Array($0) } }
    }

    /// The number that fills a chunk; nil for a mixture.
    private static func number(_ chunk: ArraySlice<UInt8>) -> UInt32? {
        let number = chunk.prefix(4).reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return chunk.elementsEqual(filled(number).prefix(chunk.count)) ? number : nil
    }

    /// One thread writes commit after commit, others read; every reader's chunks only ever become newer.
    @Test(arguments: [ProtectionClass.complete, .none])
    func oldOrNew(_ protectionClass: ProtectionClass) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", protectionClass)
        var generator = Effort.generator("ReaderTests, \(protectionClass)", 5)
        let begun = Atomic<UInt32>(1)
        let acknowledged = Atomic<UInt32>(0)
        let isOver = Atomic(false)
        let rounds = Atomic(0)
        let problem = Mutex<String?>(nil)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.write((0..<Self.count).flatMap { _ in Self.filled(1) }, at: 0)
        try writer.sync()
        acknowledged.store(1, ordering: .sequentiallyConsistent)
        let readers = DispatchGroup()
        for thread in 0..<2 {
            readers.enter()
            Thread.detachNewThread {
                defer { readers.leave() }
                var newest = [UInt32](repeating: 0, count: Self.count)
                while !isOver.load(ordering: .sequentiallyConsistent) {
                    rounds.add(1, ordering: .relaxed)
                    do {
                        try Self.look(
                            at: path, bed.keybag, &newest, from: acknowledged.load(ordering: .sequentiallyConsistent),
                            begun)
                    } catch {
                        problem.withLock { $0 = "reader \(thread): \(error)" }
                        return
                    }
                }
            }
        }
        let commits = Effort.count(2_000, 20_000) / 10
        var number = UInt32(1)
        // Until there was enough of both, or a reader has given up.
        while (number < commits || rounds.load(ordering: .relaxed) < commits / 4) && problem.withLock({ $0 == nil }) {
            number += 1
            begun.store(number, ordering: .sequentiallyConsistent)
            // Every commit changes chunk 0, so that a reader knows what it must see at least.
            for index in Set([0] + (0..<6).map { _ in Int.random(in: 0..<Self.count, using: &generator) }) {
                try writer.write(Self.filled(number), at: UInt64(index * Self.chunk))
            }
            if number % 50 == 0 { try writer.write([UInt8](repeating: 0, count: 5 << 20), at: 1 << 20) }
            if number % 50 == 1 { try writer.truncate(to: Int64(Self.count * Self.chunk)) }
            try writer.sync()
            acknowledged.store(number, ordering: .sequentiallyConsistent)
            if number % 20 == 0 {
                try bed.keybag.setProtection(number % 40 == 0 ? protectionClass : .completeUnlessOpen, ofItemAt: path)
            }
        }
        isOver.store(true, ordering: .sequentiallyConsistent)
        readers.wait()
        try writer.close()
        let read = rounds.load(ordering: .relaxed)
        print(
            "ReaderTests, \(protectionClass): \(read) rounds of reading beside \(begun.load(ordering: .relaxed)) commits"
        )
        #expect(problem.withLock { $0 } == nil)
    }

    private struct Wrong: Error { let what: String }

    private static func look(
        at path: FilePath, _ keybag: Keybag, _ newest: inout [UInt32], from least: UInt32,
        _ begun: borrowing Atomic<UInt32>
    ) throws {
        let file = try ProtectedFile.open(path, keybag: keybag)
        let bytes = try file.bytes(at: 0, count: count * chunk)
        let most = begun.load(ordering: .sequentiallyConsistent)
        guard bytes.count == count * chunk else { throw Wrong(what: "\(bytes.count) bytes") }
        for index in 0..<count {
            guard let number = number(bytes[index * chunk..<(index + 1) * chunk]) else {
                throw Wrong(what: "chunk \(index) is a mixture")
            }
            guard number >= newest[index] && number <= most else {
                throw Wrong(what: "chunk \(index): \(number) after \(newest[index]), at most \(most)")
            }
            newest[index] = number
        }
        guard newest[0] >= least else { throw Wrong(what: "\(newest[0]) after \(least) was acknowledged") }
    }

    /// A handle that has just read the heads looks at them again when it has read chunks: a chunk that was cut off meanwhile may have
    /// been written anew, and that is not committed.
    @Test func whatIsNotCommittedIsNotRead() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none, [UInt8](repeating: 1, count: 10 * Self.chunk))
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        let reader = OpenFile(try LowerFile(path, flags: O_RDONLY), keybag: bed.keybag, isWritable: false)
        var bytes = [UInt8](repeating: 0, count: Self.chunk)
        var looks = 0
        let count = try reader.operate(.read) { view, keys throws(Trouble) in
            looks += 1
            if looks == 1 {
                try certainly { () throws(DataProtectionError) in
                    try writer.truncate(to: Int64(Self.chunk))
                    try writer.sync()
                    let new = [UInt8](repeating: 2, count: 9 * Self.chunk)
                    try new.lendBytes { new throws(DataProtectionError) in try writer.write(new, at: Int64(Self.chunk))
                    }
                }
            }
            return try bytes.lendMutableBytes { bytes throws(Trouble) in
                try view.read(into: bytes, at: UInt64(5 * Self.chunk), keys)
            }
        }
        #expect(looks == 2)
        #expect(count == 0, "committed are \(Self.chunk) bytes")
        try writer.close()
        #expect(
            try bed.read(path) == [UInt8](repeating: 1, count: Self.chunk)
                + [UInt8](repeating: 2, count: 9 * Self.chunk))
    }

    /// Another process reads all of the file again and again while it is appended to, overwritten, cut and emptied.
    @Test(arguments: StormProfile.allCases)
    func otherProcess(_ profile: StormProfile) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .completeUnlessOpen)
        var generator = Effort.generator("ReaderTests, \(profile)", 6)
        let seed = generator.next() >> 16
        let reader = try StormProcess(bed, "read", seed: 0, first: 0, [path.string])
        #expect(try reader.acknowledgement() == 0)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        for number in 0..<Effort.count(2_000, 20_000) / (profile == .emptying ? 50 : 10) {
            for step in profile.steps(ofCommit: number, seed: seed) { try writer.perform(step) }
            try writer.sync()
        }
        try writer.close()
        // Throws what the reader says if it ever failed.
        let rounds = try reader.kill(after: 0)
        print("ReaderTests, \(profile): \(rounds ?? 0) rounds of reading in another process")
    }

    /// The size is never older than what was acknowledged before it was asked for, with a key or without.
    @Test(arguments: [true, false])
    func sizeIsNotOlder(_ isKeyless: Bool) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .none, [UInt8](repeating: 1, count: 5000))
        let acknowledged = Atomic<Int64>(5000)
        let isOver = Atomic(false)
        let begun = DispatchSemaphore(value: 0)
        let problem = Mutex<String?>(nil)
        let readers = DispatchGroup()
        readers.enter()
        Thread.detachNewThread {
            defer { readers.leave() }
            var rounds = 0
            begun.signal()
            while !isOver.load(ordering: .sequentiallyConsistent) {
                let least = acknowledged.load(ordering: .sequentiallyConsistent)
                rounds += 1
                do {
                    let size =
                        try isKeyless
                        ? ProtectedFileInfo(of: path).size : ProtectedFile.open(path, keybag: bed.keybag).size()
                    guard size >= least else {
                        problem.withLock { $0 = "\(size) bytes after \(least) were acknowledged, in round \(rounds)" }
                        return
                    }
                } catch {
                    problem.withLock { $0 = "\(error)" }
                    return
                }
            }
            print("ReaderTests, size: \(rounds) rounds")
        }
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        begun.wait()
        for number in 0..<Effort.count(2_000, 20_000) / 20 {
            // An overwrite opens an area; growth beyond it empties it.
            try writer.write([UInt8(truncatingIfNeeded: number)], at: 0)
            try writer.perform(.append(count: 1, seed: 1))
            try writer.sync()
            acknowledged.store(try writer.size(), ordering: .sequentiallyConsistent)
            try writer.truncate(to: try writer.size() + 3 << 20)
        }
        isOver.store(true, ordering: .sequentiallyConsistent)
        readers.wait()
        try writer.close()
        #expect(problem.withLock { $0 } == nil)
    }
}
