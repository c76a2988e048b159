import Foundation
import SystemPackage
import Testing

@testable import DataProtection

/// Who else uses a file, or its directory, while it is being converted loses nothing.
@Suite struct ConversionRaceTests {
    private static let large = [UInt8](repeating: 1, count: 3_000_000)

    /// Somebody has it open for writing, and may write a moment after it was read.
    @Test func busyWhileOpenForWriting() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", [1, 2, 3])
        let writer = try FileDescriptor.open(path, .writeOnly, options: .closeOnExec)
        expectError("busy") { try bed.keybag.protect(path, as: .complete) }
        try writer.close()
        let reader = try FileDescriptor.open(path, .readOnly, options: .closeOnExec)
        #expect(try bed.keybag.protect(path, as: .complete) == .converted, "readers are no reason to wait")
        try reader.close()
        let handle = try FileDescriptor.open(path, .readWrite, options: .closeOnExec)
        expectError("busy") { try bed.keybag.unprotect(path) }
        try handle.close()
    }

    /// Somebody has locked it by flock(2).
    @Test func busyWhileLocked() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", [1, 2, 3])
        let holder = try LowerFile(path, flags: O_RDONLY)
        #expect(flock(holder.descriptor, LOCK_SH) == 0)
        expectError("busy") { try bed.keybag.protect(path, as: .complete) }
        #expect(try path.contents() == [1, 2, 3])
        try holder.close()
    }

    /// Who opens it for writing meanwhile waits until it is decided, and then writes into the file that stays.
    @Test func whoOpensItMeanwhileGetsTheOriginal() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", Self.large)
        let opener = Opener { try path.append([9]) }
        expectError("busy") {
            try bed.keybag.protect(path, as: .complete) { _ in
                opener.begin()
                usleep(50_000)
            }
        }
        opener.wait()
        #expect(try path.contents() == Self.large + [9])
        #expect(try bed.names() == ["f"])
    }

    /// Whatever takes the place of the file, or of its directory, in the middle is left as it is.
    @Test(arguments: ["file", "link", "directory", "nothing"]) func swappedMeanwhile(_ by: String) throws {
        let bed = try FileTestBed()
        let outside = try bed.makePlain("outside", [7])
        try FileManager.default.createDirectory(atPath: bed.path("d").string, withIntermediateDirectories: false)
        let path = try bed.makePlain("d/f", Self.large)
        let moved = bed.path("d/moved")
        var isSwapped = false
        expectError("busy") {
            try bed.keybag.protect(path, as: .complete) { _ in
                if isSwapped { return }
                isSwapped = true
                try? AtomicReplace.rename(path, to: moved)
                switch by {
                case "file": try? path.overwrite([5])
                case "link": try? path.makeSymbolicLink(to: outside)
                case "directory": mkdir(path.string, 0o700)
                default: break
                }
            }
        }
        #expect(try moved.contents() == Self.large)
        #expect(try outside.contents() == [7])
        #expect(try bed.path("d").names() == (by == "nothing" ? ["moved"] : ["f", "moved"]))
        if by == "file" { #expect(try path.contents() == [5]) }
    }

    /// Its directory is another one by then: nothing is written there.
    @Test func itsDirectoryIsSwapped() throws {
        let bed = try FileTestBed()
        for name in ["d", "other"] { mkdir(bed.path(name).string, 0o700) }
        let path = try bed.makePlain("d/f", Self.large)
        try bed.makePlain("other/f", [7])
        var isSwapped = false
        try bed.keybag.protect(path, as: .complete) { _ in
            if isSwapped { return }
            isSwapped = true
            try? AtomicReplace.rename(bed.path("d"), to: bed.path("was-d"))
            try? bed.path("d").makeSymbolicLink(to: bed.path("other"))
        }
        #expect(try bed.path("other/f").contents() == [7])
        #expect(try bed.path("other").names() == ["f"])
        #expect(try bed.read(bed.path("was-d/f")) == Self.large)
    }

    /// Holes take no place afterwards either, and read as zeros; back in plaintext too.
    @Test(arguments: [1, 3, 30, 50]) func holesStayHoles(_ count: Int) throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", [])
        let file = try LowerFile(path, flags: O_RDWR)
        var text = [UInt8](repeating: 0, count: count * 1_000_000 + 5000)
        for index in 0..<count {
            for byte in 0..<3000 { text[index * 1_000_000 + byte] = UInt8(index + 1) }
            try file.write([UInt8](repeating: UInt8(index + 1), count: 3000), at: UInt64(index * 1_000_000))
        }
        try file.truncate(to: UInt64(text.count))
        guard Int(try file.status().st_blocks) * 512 < text.count / 2 else {
            print("skipped: holes (the file system has none)")
            return
        }
        try file.close()
        try bed.keybag.protect(path, as: .complete)
        #expect(try bed.read(path) == text)
        try StoredFile(path).expectClosed()
        var status = stat()
        #expect(stat(path.string, &status) == 0)
        #expect(Int(status.st_blocks) * 512 < text.count / (count > 32 ? 1 : 2))
        #expect(try bed.keybag.verify(path) { _ in true }?.findings == [])
        #expect(try bed.keybag.unprotect(path) == .converted)
        #expect(try path.contents() == text)
        #expect(stat(path.string, &status) == 0)
        #expect(Int(status.st_blocks) * 512 < text.count / (count > 32 ? 1 : 2))
    }

    /// More holes than a content record has room for, the others too long for the disk: refused with both sizes, before anything is
    /// written.
    @Test func moreHolesThanFit() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", [])
        let distance: UInt64 = 300 << 30
        do {
            let file = try LowerFile(path, flags: O_RDWR)
            do {
                for index in 0..<40 as Range<UInt64> { try file.write([1], at: index * distance) }
            } catch {
                return print("skipped: a file of 12 TiB (\(error))")
            }
            let room = roomOnFileSystem(of: file.descriptor) ?? 0
            guard try file.status().st_blocks < 1 << 12, room < 6 * distance else {
                return print("skipped: holes (the file system has none, or room for everything)")
            }
            try file.close()
        }
        let error = #expect(throws: DataProtectionError.self) {
            // Never goes on, so that nothing is filled if it is not refused.
            _ = try Conversion(ConversionSource(path)).seal(as: .complete, keybag: bed.keybag) { _ in false }
        }
        if case .because(FileFailure.tooSparse(path, let stored, let needed))? = error {
            #expect(stored < 1 << 21 && needed > 6 * distance)
        } else {
            Issue.record("\(String(describing: error))")
        }
        #expect(try bed.names() == ["f"])
    }

    /// Nothing but holes.
    @Test func oneHole() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlain("f", [])
        #expect(truncate(path.string, 1 << 30) == 0)
        try bed.keybag.protect(path, as: .none)
        #expect(try ProtectedFileInfo(of: path).size == 1 << 30)
        var status = stat()
        #expect(stat(path.string, &status) == 0)
        #expect(Int(status.st_blocks) * 512 < 1 << 20)
        #expect(try bed.keybag.verify(path) { _ in true }?.findings == [])
        try bed.keybag.unprotect(path)
        #expect(stat(path.string, &status) == 0)
        #expect(status.st_size == 1 << 30 && Int(status.st_blocks) * 512 < 1 << 20)
    }
}

extension FilePath {
    /// O_APPEND, waiting for whoever has a lease.
    fileprivate func append(_ bytes: [UInt8]) throws {
        let file = try FileDescriptor.open(self, .writeOnly, options: [.append, .closeOnExec])
        try file.closeAfter { _ = try file.writeAll(bytes) }
    }
}

/// Work on a thread of its own, begun by hand.
private final class Opener: Sendable {
    private let begun = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)

    init(_ work: @escaping @Sendable () throws -> Void) {
        Thread.detachNewThread { [begun, ended] in
            begun.wait()
            #expect(throws: Never.self) { try work() }
            ended.signal()
        }
    }

    func begin() { begun.signal() }
    func wait() { ended.wait() }
}
