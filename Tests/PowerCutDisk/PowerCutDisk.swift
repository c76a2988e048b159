import Foundation
import Synchronization
import TestEffort

/// A disk with ext4 whose power can fail after any write: every write and flush is recorded, and what the disk would hold is built again.
///
///     let disk = try PowerCutDisk()
///     …work below disk.mountPoint, and after each acknowledgement: try disk.position()
///     try disk.unplug()
///     for cut in disk.cuts(count: 20, from: first, seed: 1) {
///         try disk.after(cut) { … what was acknowledged before cut.position is there … }
///     }
///
/// What is done after a cut can be cut again: ``again(after:)``.
///
/// The records are kept by `block-log`, a process of its own, under a loop device; see there. Needs root, /dev/fuse and loop devices.
public final class PowerCutDisk {
    /// When the power fails, and what it leaves of writes that were not flushed.
    public struct Cut: Hashable, Sendable, CustomStringConvertible {
        /// What is left.
        public enum Loss: String, CaseIterable, Sendable {
            /// All of it, as after a kill.
            case all
            /// Nothing.
            case none
            /// Some writes, whole.
            case write
            /// Some pieces of 4 KiB.
            case page
            /// Some sectors of 512 bytes.
            case sector
        }

        /// Records before it.
        public let position: Int
        /// Decides which.
        public let seed: UInt32
        public let loss: Loss

        public init(position: Int, seed: UInt32, loss: Loss) {
            (self.position, self.seed, self.loss) = (position, seed, loss)
        }

        public var description: String { "after \(position) records, \(loss) \(seed)" }
    }

    /// How many records there were when a step was acknowledged, and the next one had not begun.
    public typealias Mark = (step: Int, position: Int)

    /// A command that failed, and what it said.
    public struct Failed: Error, CustomStringConvertible {
        public let description: String
    }

    /// Why there can be none here, found by trying; nil: there can.
    public static let whyNot: String? = {
        if geteuid() != 0 { return "power cuts take root, to mount" }
        do {
            let disk = try PowerCutDisk(mebibytes: 8)
            try disk.flush()
            try disk.unplug()
            return nil
        } catch {
            return "power cuts take /dev/fuse and loop devices: \(error)"
        }
    }()

    /// Where the disk is mounted.
    public let mountPoint: String
    private static let made = Atomic(0)
    private let scratch: String
    private let process = Process()
    private let (input, output) = (Pipe(), Pipe())
    private var received = Data()
    private var isMounted = false
    /// Without the heuristics by which ext4 makes up for programs that forget to flush what they rename; on every other disk without
    /// data=ordered, by which blocks are written before the file is said to have them.
    private let options: String

    /// Makes one of so many MiB, and mounts it.
    public convenience init(mebibytes: Int = 32) throws {
        let scratch = try Self.makeScratch { image in
            try Self.run(["truncate", "-s", "\(mebibytes)M", image])
            try Self.run(["mkfs.ext4", "-q", "-F", "-b", "4096", image])
        }
        let isOrdered = Self.made.wrappingAdd(1, ordering: .relaxed).newValue % 2 == 0
        try self.init(
            in: scratch, mountPoint: scratch + "/mounted",
            options: "loop,noauto_da_alloc" + (isOrdered ? "" : ",data=writeback"))
    }

    /// Serves and mounts the file `image` in the directory `scratch`.
    private init(in scratch: String, mountPoint: String, options: String) throws {
        (self.scratch, self.mountPoint, self.options) = (scratch, mountPoint, options)
        process.executableURL = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "block-log")
        process.arguments = [scratch + "/served", scratch + "/image"]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        guard try line() == "ready" else { throw Failed(description: "block-log does not serve") }
        try Self.run(["mount", "-o", options, scratch + "/served/disk", mountPoint])
        isMounted = true
    }

    /// A new directory with the image, which `makeImage` makes, and directories to mount in; none if that fails.
    private static func makeScratch(_ makeImage: (_ path: String) throws -> Void) throws -> String {
        // A small /dev/shm, as in containers, has no room for several.
        var room = statvfs()
        let isInMemory = statvfs("/dev/shm", &room) == 0 && room.f_bavail * room.f_bsize > 1 << 30
        let parent = isInMemory ? "/dev/shm" : FileManager.default.temporaryDirectory.path
        var template = Array("\(parent)/protectfs-power-cut-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Failed(description: "mkdtemp: \(errno)") }
        let scratch = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        do {
            for name in ["mounted", "served"] {
                try FileManager.default.createDirectory(
                    atPath: scratch + "/" + name, withIntermediateDirectories: false)
            }
            try makeImage(scratch + "/image")
        } catch {
            try? FileManager.default.removeItem(atPath: scratch)
            throw error
        }
        return scratch
    }

    deinit {
        if isMounted { try? unplug() }
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
        try? FileManager.default.removeItem(atPath: scratch)
    }

    /// How many writes and flushes have reached the disk.
    public func position() throws -> Int {
        guard let position = Int(try ask("position")) else { throw Failed(description: "block-log gave no position") }
        return position
    }

    /// Lets every write to the blocks that a file has now fail (EIO), or all succeed again.
    ///
    /// - Parameter path: nil: no write fails.
    public func failWrites(to path: String?) throws {
        var places = ""
        if let path {
            // A line for each extent, in blocks of 4 KiB: "   0:        0..      24:       1807..      1831:     25: …"
            for line in try Self.run(["filefrag", "-b4096", "-v", path]).split(separator: "\n") {
                let fields = line.split(separator: ":").map { $0.split { !$0.isNumber }.compactMap { Int($0) } }
                guard fields.count > 3, fields[0].count == 1, fields[2].count == 2 else { continue }
                places += " \(fields[2][0] * 4096) \((fields[2][1] - fields[2][0] + 1) * 4096)"
            }
            guard !places.isEmpty else { throw Failed(description: "filefrag says no blocks of \(path)") }
        }
        _ = try ask("fail" + places)
    }

    /// Takes the disk away. Nothing is recorded any more.
    public func unplug() throws {
        try Self.run(["umount", mountPoint])
        isMounted = false
        // The kernel lets go of the loop device when it gets to it.
        for _ in 0..<600 {
            if try ask("unmount") == "done" { return }
            usleep(50_000)
        }
        throw Failed(description: "the loop device stays")
    }

    /// After each of a sample of cuts, mounted, `check` is called with the steps that may be what is there: the last one that was
    /// acknowledged before, and the next one, unless that had not begun. Prints how many there were.
    public func afterCuts(
        of workload: String, marks: [Mark], _ check: (_ allowed: ClosedRange<Int>, _ comment: String) throws -> Void
    ) throws {
        let cuts = try cuts(of: workload, marks: marks.map(\.position))
        for cut in cuts {
            let (allowed, text) = Self.allowed(after: cut, of: workload, marks)
            try after(cut) { try check(allowed, text) }
        }
        print("power cuts, \(workload): \(cuts.count) cuts, \(marks.count - 1) acknowledged steps before them")
    }

    /// The steps that may be what is there after a cut, and that in words.
    public static func allowed(
        after cut: Cut, of workload: String, _ marks: [Mark]
    ) -> (steps: ClosedRange<Int>, comment: String) {
        let last = marks.last { $0.position <= cut.position }!
        let steps = last.step...(last.position == cut.position ? last.step : last.step + 1)
        return (steps, "\(workload), \(cut), \(last.step) was acknowledged")
    }

    /// A sample of cuts, in the order of their positions: at marks, where nothing that comes later has begun; right before a flush, where
    /// most is in doubt; and anywhere.
    ///
    /// ``Effort`` says how many there are in all, and which; both are printed, unless they are given.
    ///
    /// - Parameters:
    ///   - workload: for what is printed.
    ///   - marks: positions of acknowledgements, ascending; the first is the first position.
    ///   - count: how many.
    ///   - given: decides which.
    public func cuts(
        of workload: String, marks: [Int], count: Int = PowerCutDisk.share(atLeast: 2), seed given: UInt32? = nil
    ) throws -> [Cut] {
        let seed = given.map { UInt64($0) } ?? Effort.seed
        let (first, last) = (marks[0], try min(marks.last! + 8, position()))
        if given == nil {
            print("power cuts, \(workload): \(count) in \(last - first) records, PROTECTFS_SEED=\(seed)")
        }
        var generator = SeededGenerator(seed: seed)
        let flushes = try ask("flushes").split(separator: " ").compactMap { Int($0) }.filter {
            $0 > first && $0 <= last
        }
        let positions = (0..<count).map { number in
            switch number % 3 {
            case 0: marks.randomElement(using: &generator)!
            case 1: (flushes.randomElement(using: &generator) ?? last + 1) - 1
            default: Int.random(in: first...last, using: &generator)
            }
        }
        return positions.sorted().map { position in
            Cut(
                position: position, seed: UInt32.random(in: 0 ... .max, using: &generator),
                loss: Cut.Loss.allCases.randomElement(using: &generator)!)
        }
    }

    /// How many cuts each workload gets: of 130 in all at the least effort, of 2,000 at the most.
    public static func share(atLeast least: Int) -> Int {
        max(least, (Effort.count(130, 2_000) + workloads - 1) / workloads)
    }

    /// Workloads of all suites: the four profiles, and again with a recovery (4), new files, replacements, conversions, class
    /// changes (2), rekeys, logs; passcodes, recoveries, rotations; attempts, creation, erasure; upgrade; secrets; downloads; a mount's
    /// writes, names and late pages.
    private static let workloads = 27

    /// Makes what was written before last, on this disk only.
    public func flush() throws { try Self.run(["sync", "-f", mountPoint]) }

    /// Mounts what a cut has left, which replays ext4's journal, and lends it: at ``mountPoint``, where paths are what they were.
    public func after<R>(_ cut: Cut, _ body: () throws -> R) throws -> R {
        let image = scratch + "/after"
        // A loop device that the kernel has not let go of would be taken again, with what it remembers.
        try? FileManager.default.removeItem(atPath: image)
        try make(cut, at: image)
        try Self.run(["mount", "-o", options, image, mountPoint])
        let result = Result { try body() }
        try Self.run(["umount", mountPoint])
        return try result.get()
    }

    /// What a cut has left, on a disk that remembers too: power can fail again in what is done then. It is mounted where this one was.
    public func again(after cut: Cut) throws -> PowerCutDisk {
        let scratch = try Self.makeScratch { try make(cut, at: $0) }
        return try PowerCutDisk(in: scratch, mountPoint: mountPoint, options: options)
    }

    private func make(_ cut: Cut, at image: String) throws {
        guard try ask("cut \(cut.position) \(cut.seed) \(cut.loss) \(image)") == "done" else {
            throw Failed(description: "block-log made no cut")
        }
    }

    // MARK: commands

    private func ask(_ question: String) throws -> String {
        try input.fileHandleForWriting.write(contentsOf: Data((question + "\n").utf8))
        return try line()
    }

    private func line() throws -> String {
        while true {
            if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: received[..<end], as: UTF8.self)
                received = Data(received[(end + 1)...])
                return line
            }
            let more = output.fileHandleForReading.availableData
            guard !more.isEmpty else { throw Failed(description: "block-log has ended") }
            received += more
        }
    }

    @discardableResult
    private static func run(_ command: [String]) throws -> String {
        let (process, output, errors) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        process.standardInput = FileHandle.nullDevice
        (process.standardOutput, process.standardError) = (output, errors)
        try process.run()
        let answer = try output.fileHandleForReading.readToEnd() ?? Data()
        let said = try errors.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failed(description: "\(command.joined(separator: " ")): \(String(decoding: said, as: UTF8.self))")
        }
        return String(decoding: answer, as: UTF8.self)
    }
}
