import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// Random work on protected files, each step compared with a model that knows nothing of chunks or commits.
///
/// One handle writes, a second one reads beside it and must see what was committed. After every close the stored form is
/// looked at, and read anew.
struct ModelRun {
    /// Files of which kind, and who uses them.
    struct Mix: CustomTestStringConvertible, Sendable {
        let protectionClass: ProtectionClass
        /// Made whole by ``ProtectedFileWriter``: 64 KiB chunks. Else through a handle: 4 KiB.
        var isLarge = false
        var isWriterRemote = false
        var isReaderRemote = false

        var testDescription: String {
            "\(protectionClass), \(isLarge ? "64" : "4") KiB chunks"
                + (isWriterRemote ? ", written" : isReaderRemote ? ", read" : "")
                + (isWriterRemote || isReaderRemote ? " by another process" : "")
        }
    }

    let bed: FileTestBed
    let mix: Mix
    var generator: SeededGenerator
    private let writer: any FileUser
    private let reader: any FileUser
    private var path: FilePath
    private var episode = 0
    private var model = ModelFile()
    /// What the reader may see: what the last sync made last, and what the library may have committed by itself since.
    private var committed: [ModelFile] = []
    private var log: [String] = []
    private(set) var operations = 0

    init(_ mix: Mix, _ generator: SeededGenerator) throws {
        bed = try FileTestBed()
        self.mix = mix
        self.generator = generator
        writer = mix.isWriterRemote ? try RemoteUser(bed.keybag) : LocalUser(bed.keybag)
        reader = mix.isReaderRemote ? try RemoteUser(bed.keybag) : LocalUser(bed.keybag)
        path = bed.path("0")
    }

    /// Does `count` operations or a few more; stops at the first that goes wrong.
    mutating func run(_ count: Int) throws {
        do {
            while operations < count { try runEpisode() }
        } catch {
            Issue.record("\(error) in \(path), after:\n\(log.suffix(40).joined(separator: "\n"))")
        }
    }

    /// A difference from the model.
    struct Difference: Error { let what: String }

    private func expect(_ condition: Bool, _ what: @autoclosure () -> String) throws {
        if !condition { throw Difference(what: what()) }
    }

    // MARK: episodes

    private mutating func runEpisode() throws {
        episode += 1
        path = bed.path("\(episode)")
        log = ["a new file"]
        let start = mix.isLarge ? pattern(generator.next(), count: size(within: 300_000)) : []
        if mix.isLarge {
            try bed.makeWhole("\(episode)", mix.protectionClass, start)
        } else {
            try bed.make("\(episode)", mix.protectionClass)
        }
        model = ModelFile(start)
        committed = [model]
        try checkClosed()
        try writer.open(path, writing: true)
        try reader.open(path, writing: false)
        let isSparse = Int.random(in: 0..<5, using: &generator) == 0
        let limit = isSparse ? 1 << 30 : Int.random(in: 0..<3, using: &generator) == 0 ? 3_600 : 400_000
        for _ in 0..<Int.random(in: 20...200, using: &generator) { try step(limit) }
        try writer.close()
        try reader.close()
        note("close")
        committed = [model]
        try checkClosed()
        try path.remove()
    }

    private mutating func note(_ what: String) {
        operations += 1
        log.append(what)
    }

    private mutating func step(_ limit: Int) throws {
        switch Int.random(in: 0..<1000, using: &generator) {
        case ..<250: try change(write(limit, 1...300))
        case ..<350: try change(write(limit, 1...20_000))
        case ..<450: try change(.append(count: size(within: 9000) + 1, seed: generator.next()))
        case ..<570: try change(.truncate(UInt64(size(within: limit))))
        case ..<720: try read(limit)
        case ..<830: try sync()
        case ..<880: try reopen()
        case ..<970: try readBeside(limit)
        case ..<976: try manyHoles()
        case ..<980: try fillArea()
        case ..<986: try shrinkWithArea()
        case ..<988: try overwriteMuch()
        case ..<992: try change(write(limit, 1_000_000...2_200_000))
        default: try lockAndUnlock()
        }
    }

    // MARK: single operations

    /// A size or an offset: near a border more often than not.
    private mutating func size(within limit: Int) -> Int {
        let borders = [0, 1, 2, 3583, 3584, 3585, 4095, 4096, 4097, 8191, 8192, 8193, 65_535, 65_536, 65_537, 131_072]
        let chosen: Int
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: chosen = borders.randomElement(using: &generator)!
        case 1: chosen = 4096 * .random(in: 0...64, using: &generator) + .random(in: -1...1, using: &generator)
        case 2: chosen = Int(model.size) + .random(in: -2...2, using: &generator)
        default: chosen = .random(in: 0...limit, using: &generator)
        }
        return min(max(chosen, 0), limit)
    }

    private mutating func write(_ limit: Int, _ counts: ClosedRange<Int>) -> FileStep {
        .write(
            offset: UInt64(size(within: limit)), count: .random(in: counts, using: &generator), seed: generator.next())
    }

    private mutating func change(_ step: FileStep) throws {
        let before = model
        log.append("\(step)")
        operations += 1
        try writer.perform(step)
        model.apply(step)
        // A large cut that is followed by growth is committed by itself.
        if before.size + (4 << 20) < committed[0].size { committed.append(before) }
        try expect(try writer.size() == model.size, "size after writing")
    }

    private mutating func sync() throws {
        note("sync")
        try writer.perform(.sync)
        committed = [model]
    }

    private mutating func read(_ limit: Int) throws {
        let (offset, count) = (UInt64(size(within: limit)), size(within: 100_000))
        note("read \(offset) \(count)")
        let sample = try writer.sample(at: offset, count: count)
        try expect(sample == Sample(model.bytes(at: offset, count: count)), "the writer reads something else")
    }

    private mutating func readBeside(_ limit: Int) throws {
        let (offset, count) = (UInt64(size(within: limit)), size(within: 100_000))
        note("reader: read \(offset) \(count)")
        let sample = try reader.sample(at: offset, count: count)
        let isRight = committed.contains { sample == Sample($0.bytes(at: offset, count: count)) }
        try expect(isRight, "the reader does not see what is committed")
        let size = try reader.size()
        try expect(
            committed.contains { $0.size == size },
            "the reader sees another size: \(size) instead of \(committed.map(\.size))")
    }

    private mutating func reopen() throws {
        note("close and open")
        try writer.close()
        committed = [model]
        try checkClosed()
        try writer.open(path, writing: true)
    }

    /// Every other chunk, 40 times: more holes than a content record has room for.
    private mutating func manyHoles() throws {
        let start = UInt64(size(within: 50_000))
        for hole in 0..<UInt64(40) {
            try change(.write(offset: start + hole * 9000, count: 100, seed: generator.next()))
            if hole == 20 { try readBeside(400_000) }
        }
        try sync()
    }

    /// More than 4 MiB of overwrites, committed one by one: the area is emptied.
    private mutating func fillArea() throws {
        try change(.write(offset: 0, count: 800_000, seed: generator.next()))
        try sync()
        for _ in 0..<7 {
            try change(.write(offset: UInt64(size(within: 60_000)), count: 730_000, seed: generator.next()))
            try sync()
            try readBeside(300_000)
        }
    }

    private mutating func shrinkWithArea() throws {
        try change(.write(offset: 0, count: 50_000, seed: generator.next()))
        try sync()
        try change(.write(offset: 20_000, count: 10_000, seed: generator.next()))
        try sync()
        try change(.truncate(UInt64(size(within: 30_000))))
        if Bool.random(using: &generator) { try sync() }
        try readBeside(60_000)
        try change(write(60_000, 1...9000))
    }

    /// More than 8 MiB of overwrites at once: the library commits in between.
    private mutating func overwriteMuch() throws {
        if model.size > 64 << 20 { try change(.truncate(10 << 20)) }
        try change(.write(offset: 0, count: 9_500_000, seed: generator.next()))
        try sync()
        let step = FileStep.write(offset: 100, count: 9_400_000, seed: generator.next())
        log.append("\(step)")
        try writer.perform(step)
        model.apply(step)
        try read(9_000_000)
        try sync()
        try readBeside(9_000_000)
        try change(.truncate(UInt64(size(within: 100_000))))
    }

    /// A class A handle that has something pending: refused while locked, committed without a key, the same afterwards.
    private mutating func lockAndUnlock() throws {
        guard mix.protectionClass == .complete else { return try read(100_000) }
        note("lock")
        // What the lock commits is committed before anything else is written.
        try expect(try bed.keybag.lock(waiting: 600).isClean, "a lock that is not over")
        let isRefused = (try? writer.perform(.write(offset: 0, count: 1, seed: 1))) == nil
        try expect(isRefused, "written while locked")
        try expect(
            (try? reader.sample(at: 0, count: 1)) == nil || committed.contains { $0.size == 0 }, "read while locked")
        try sync()
        note("unlock")
        try bed.bag.unlock()
        try readBeside(100_000)
    }

    // MARK: after a close

    private func checkClosed() throws {
        let stored = try StoredFile(path)
        try expect(!stored.state.hasArea, "an area after closing")
        try expect(stored.heads.isMirrored, "different heads after closing")
        try expect(stored.length == stored.extent, "length \(stored.length), extent \(stored.extent)")
        let info = try ProtectedFileInfo(of: path)
        try expect(UInt64(info.size) == model.size && info.protectionClass == mix.protectionClass, "\(info)")
        let fresh = try ProtectedFile.open(path, keybag: bed.keybag)
        try expect(UInt64(try fresh.size()) == model.size, "another size after closing")
        for (offset, count) in ranges() {
            let isSame = try fresh.bytes(at: offset, count: count) == model.bytes(at: offset, count: count)
            try expect(isSame, "other bytes after closing: \(count) at \(offset)")
        }
    }

    /// All of a small file; of a large one what was ever written, and what lies around it.
    private func ranges() -> [(UInt64, Int)] {
        if model.size <= 4 << 20 { return [(0, Int(model.size) + 1)] }
        let pages = model.writtenOffsets
        let chosen =
            pages.count <= 600 ? pages : stride(from: 0, to: pages.count, by: pages.count / 300).map { pages[$0] }
        return chosen.map { ($0 < 4096 ? 0 : $0 - 4096, 3 * 4096) } + [(model.size - 5000, 6000)]
    }
}
