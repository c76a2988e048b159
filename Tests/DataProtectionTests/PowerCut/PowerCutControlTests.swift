import Foundation
import PowerCutDisk
import StormScript
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// That the power cuts can lose something, and that it is not ext4 that loses it: some bytes of a file are overwritten and flushed, again
/// and again, as plaintext, through gocryptfs, which overwrites sealed blocks in place, and through ours.
///
/// What is asked of all three is what fsync(2) promises: a byte that was flushed and not written to since is there.
/// Ours with a mistake is the other control: `Tests/PowerCutDisk/power-cuts` builds it and lets the tests refuse it.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"), .serialized)
struct PowerCutControlTests {
    private static let size = 64 << 10

    @Test func plaintext() throws {
        #expect(try lost("ext4", opened: { PlainFile($0) }) == 0)
    }

    @Test func ours() throws {
        #expect(try lost("protectfs", opened: { try OwnFile($0) }) == 0)
    }

    @Test(.enabled(if: GocryptfsFile.isThere, "gocryptfs is not installed"))
    func gocryptfs() throws {
        #expect(try lost("gocryptfs", cuts: 60, opened: { try GocryptfsFile($0) }) > 0, "this control must lose")
    }

    /// In how many of the cuts bytes were lost that had been flushed.
    private func lost(
        _ name: String, cuts least: Int = 20, opened: (_ directory: FilePath) throws -> some OverwrittenFile
    ) throws -> Int {
        let disk = try PowerCutDisk(mebibytes: 48)
        let directory = FilePath(disk.mountPoint)
        var generator = Effort.generator("power cuts, \(name)")
        var model = ModelFile(pattern(1, count: Self.size))
        let file = try opened(directory)
        try file.write(model.bytes, at: 0)
        try disk.flush()
        var history = [(model: model, position: try disk.position())]
        var changes: [Range<Int>] = []
        for step in 0..<60 {
            let start = Int.random(in: 0..<Self.size, using: &generator)
            let bytes = pattern(UInt64(step), count: min(.random(in: 1...3000, using: &generator), Self.size - start))
            try file.write(bytes, at: UInt64(start))
            model.write(bytes, at: UInt64(start))
            changes.append(start..<start + bytes.count)
            history.append((model, try disk.position()))
        }
        try file.close()
        try disk.unplug()
        var lost = 0
        let cuts = try disk.cuts(of: name, marks: history.map(\.position), count: PowerCutDisk.share(atLeast: least))
        for cut in cuts {
            let flushed = history.lastIndex { $0.position <= cut.position }!
            try disk.after(cut) {
                let file = try opened(directory)
                let expected = history[flushed].model.bytes
                let inFlight = flushed < changes.count ? changes[flushed] : 0..<0
                var isWhole = true
                for block in stride(from: 0, to: Self.size, by: 4096) where isWhole {
                    let found = (try? file.bytes(at: block, count: 4096)) ?? []
                    isWhole = (block..<block + 4096).allSatisfy {
                        inFlight.contains($0) || !found.isEmpty && found[$0 - block] == expected[$0]
                    }
                }
                if !isWhole { lost += 1 }
                try file.close()
            }
        }
        print("power cuts, \(name): flushed bytes lost in \(lost) of \(cuts.count) cuts")
        return lost
    }
}

/// A file that the control overwrites; made if it is not there.
private protocol OverwrittenFile {
    /// Overwrites, and flushes.
    func write(_ bytes: [UInt8], at offset: UInt64) throws
    func bytes(at offset: Int, count: Int) throws -> [UInt8]
    func close() throws
}

private struct PlainFile: OverwrittenFile {
    private let path: FilePath

    init(_ directory: FilePath, name: String = "plain") { path = directory.appending(name) }

    func write(_ bytes: [UInt8], at offset: UInt64) throws {
        let file = try FileDescriptor.open(
            path, .readWrite, options: [.create, .closeOnExec], permissions: .ownerReadWrite)
        try file.closeAfter {
            _ = try file.writeAll(toAbsoluteOffset: Int64(offset), bytes)
            guard fsync(file.rawValue) == 0 else { throw Errno(rawValue: errno) }
        }
    }

    func bytes(at offset: Int, count: Int) throws -> [UInt8] {
        let file = try FileDescriptor.open(path, .readOnly, options: .closeOnExec)
        return try file.closeAfter {
            var bytes = [UInt8](repeating: 0, count: count)
            let read = try bytes.withUnsafeMutableBytes {
                try file.read(fromAbsoluteOffset: Int64(offset), into: $0)
            }
            guard read == count else { throw Errno.ioError }
            return bytes
        }
    }

    func close() {}
}

/// A plain file in a mounted gocryptfs.
private final class GocryptfsFile: OverwrittenFile {
    private let file: PlainFile
    private let mountPoint: FilePath
    private let process: Process

    static let isThere = (try? run(["gocryptfs", "-version"])) != nil

    init(_ directory: FilePath) throws {
        let (sealed, passphrase) = (directory.appending("sealed").string, directory.appending("passphrase").string)
        mountPoint = directory.appending("opened")
        file = PlainFile(mountPoint, name: "f")
        if !FileManager.default.fileExists(atPath: sealed) {
            for path in [sealed, mountPoint.string] {
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
            }
            try Data("for this test\n".utf8).write(to: URL(fileURLWithPath: passphrase))
            try Self.run(["gocryptfs", "-init", "-q", "-scryptn", "10", "-passfile", passphrase, sealed])
        }
        // In the foreground: of one that goes into the background Foundation would never see the end.
        process = try Self.started(["gocryptfs", "-fg", "-q", "-passfile", passphrase, sealed, mountPoint.string])
        while try Self.device(of: mountPoint) == Self.device(of: directory) {
            guard process.isRunning else { throw Errno.ioError }
            usleep(5_000)
        }
    }

    private static func device(of path: FilePath) throws -> UInt {
        var status = stat()
        guard stat(path.string, &status) == 0 else { throw Errno(rawValue: errno) }
        return status.st_dev
    }

    func write(_ bytes: [UInt8], at offset: UInt64) throws { try file.write(bytes, at: offset) }
    func bytes(at offset: Int, count: Int) throws -> [UInt8] { try file.bytes(at: offset, count: count) }
    func close() throws {
        try Self.run(["umount", mountPoint.string])
        process.waitUntilExit()
    }

    private static func run(_ command: [String]) throws {
        let process = try started(command)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Errno.ioError }
    }

    private static func started(_ command: [String]) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }
}

/// A protected file.
private final class OwnFile: OverwrittenFile {
    private let keybag: Keybag
    private let file: ProtectedFile

    init(_ directory: FilePath) throws {
        let place = directory.appending("keybag")
        if !FileManager.default.fileExists(atPath: place.string) {
            try Keybag.create(
                at: place, passcode: secret(TestKeybag.passcode), iterations: TestKeybag.iterations,
                deviceKey: directory.appending("device-key"))
            // The record of who has files open stays open as long as a process lives: nothing could be unmounted.
            try? FileManager.default.removeItem(atPath: place.appending("run").string)
            try place.appending("run").overwrite([])
        }
        keybag = try Keybag(at: place)
        try keybag.unlock(passcode: secret(TestKeybag.passcode))
        file = try ProtectedFile.open(
            directory.appending("protected"), .readWrite, create: .complete, keybag: keybag)
    }

    deinit { try? keybag.ring.evict(everything: true) }

    func write(_ bytes: [UInt8], at offset: UInt64) throws {
        try file.write(bytes, at: offset)
        try file.sync()
    }
    func bytes(at offset: Int, count: Int) throws -> [UInt8] { try file.bytes(at: UInt64(offset), count: count) }
    func close() throws { try file.close() }
}
