import Foundation
import Synchronization
import Testing

@testable import DataProtection

/// What goes wrong easily where files, keys and locks meet, beyond the cells of the table.
@Suite struct TrapTests {
    private static let text = [UInt8](repeating: 0x63, count: 300_000)

    /// A file is there with its key, or not there.
    @Test("A lock between creating a file and making its key leaves nothing behind")
    func lockWhileCreating() throws {
        let bed = try FileTestBed()
        let created = Mutex<Set<String>>([])
        let refused = Atomic(0)
        let isOver = Atomic(false)
        let threads = (0..<2).map { thread in
            Thread {
                var number = 0
                while !isOver.load(ordering: .relaxed) {
                    number += 1
                    let name = "\(thread)-\(number)"
                    do throws(DataProtectionError) {
                        let file = try ProtectedFile.create(bed.path(name), as: .complete, keybag: bed.keybag)
                        created.withLock { _ = $0.insert(name) }
                        try file.close()
                    } catch {
                        #expect(error.caseName == "locked", "\(error)")
                        refused.add(1, ordering: .relaxed)
                    }
                }
            }
        }
        for thread in threads { thread.start() }
        var rounds = 0
        // Until both were seen often, or for so many rounds that the machine is to blame.
        while rounds < 2_000, refused.load(ordering: .relaxed) < 50 || created.withLock({ $0.count }) < 50 {
            rounds += 1
            try bed.keybag.lock()
            usleep(500)
            try bed.bag.unlock()
            usleep(500)
        }
        isOver.store(true, ordering: .relaxed)
        while threads.contains(where: { !$0.isFinished }) { usleep(1_000) }
        try bed.enter(.unlocked)
        let names = created.withLock { $0 }
        #expect(Set(try bed.names()) == names)
        for name in names { #expect(try bed.read(bed.path(name)).isEmpty) }
        print("lock while creating: \(names.count) created, \(refused.load(ordering: .relaxed)) refused")
    }

    /// The key's number in the ring is another one after each unlock.
    @Test func sameHandleAfterManyUnlocks() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, Self.text)
        let reader = try ProtectedFile.open(path, keybag: bed.keybag)
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        for round in 0..<4 {
            try bed.keybag.lock()
            expectError("locked") { _ = try reader.bytes(at: 200_000, count: 1) }
            expectError("locked") { try writer.write([1], at: 0) }
            if round == 2 { try bed.keybag.evictEverything() }
            try bed.enter(.unlocked)
            #expect(try reader.bytes(at: 200_000, count: 1) == [0x63])
            try writer.write([UInt8(round)], at: 0)
            try writer.sync()
            #expect(try reader.bytes(at: 0, count: 1) == [UInt8(round)], "another handle sees it")
        }
    }

    /// Its new contents are of the class that they inherit from their first byte on, and have no name.
    @Test(arguments: ProtectionClass.allCases)
    func temporaryFileOfAReplacement(_ its: ProtectionClass) throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", its, [1])
        let writer = try ProtectedFileWriter(path, keybag: bed.keybag)
        #expect(writer.protectionClass == its.inherited)
        try Self.text.withUnsafeBytes { try writer.append($0) }
        #expect(try bed.names() == ["f"], "it has no name")
        for temporary in try Self.openUnnamedFiles(in: bed.directory) {
            let stored = try temporary.contents()
            #expect(!stored.isEmpty && stored.firstRange(of: [0x63, 0x63, 0x63, 0x63]) == nil, "it is sealed already")
        }
        try writer.finish()
        #expect(try ProtectedFileInfo(of: path).protectionClass == its.inherited)
    }

    @Test("A temporary file that a kill left between its name and its place has the class of the old one")
    func abandonedTemporaryFile() throws {
        guard StormProcess.canKillAtCalls else {
            print("skipped: class of an abandoned temporary file: there is no strace(1) here that may trace")
            return
        }
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1])
        let call = StormProcess.Call(name: "renameat", number: 1)
        _ = try? StormProcess(bed, "replace", seed: 1, first: 1, [path.string], until: call).killed(after: nil)
        let left = try bed.names().filter { $0 != "f" }
        try #require(left == [".f.protectfs-unfinished-0"])
        #expect(try ProtectedFileInfo(of: bed.path(left[0])).protectionClass == .complete)
        try bed.keybag.lock()
        expectError("locked") { _ = try bed.read(bed.path(left[0])) }
    }

    /// The handle could read the data and write it again. The wrap could not be made without unwrapping the old one.
    @Test("A class B file keeps its class while locked, whatever handle is open", arguments: [true, false])
    func reclassThroughAnOpenHandle(_ isCreatedWhileLocked: Bool) throws {
        let bed = try FileTestBed(state: isCreatedWhileLocked ? .locked : .unlocked)
        let path = bed.path("f")
        let file = try ProtectedFile.create(path, as: .completeUnlessOpen, keybag: bed.keybag)
        try file.write(Self.text, at: 0)
        try file.sync()
        try bed.keybag.lock()
        let before = try path.contents()
        for other in ProtectionClass.allCases where other != .completeUnlessOpen {
            expectError("locked", "to \(other)") { try bed.keybag.setProtection(other, ofItemAt: path) }
        }
        expectError("locked") { try bed.keybag.protect(path, as: .complete) }
        try bed.keybag.setProtection(.completeUnlessOpen, ofItemAt: path)
        #expect(try path.contents() == before && bed.notes.isEmpty)
        #expect(try file.bytes(at: 299_999, count: 1) == [0x63], "the handle goes on")
        try file.write([1], at: 0)
        try file.close()
        try bed.enter(.unlocked)
        #expect(try bed.read(path) == [1] + Self.text.dropFirst())
        #expect(try ProtectedFileInfo(of: path).protectionClass == .completeUnlessOpen)
    }

    /// Files of this process that have no name, by their descriptors.
    private static func openUnnamedFiles(in directory: FilePath) throws -> [FilePath] {
        let files = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter { number in
            let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(number)")
            return target?.hasPrefix(directory.string) == true && target?.hasSuffix(" (deleted)") == true
        }
        return files.map { FilePath("/proc/self/fd/\($0)") }
    }
}
