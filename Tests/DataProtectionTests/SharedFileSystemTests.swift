import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// Open files on a file system that another machine writes to as well: what this machine has in its page cache is no answer.
@Suite(.enabled(if: SharedMount.whyNot == nil, "\(SharedMount.whyNot ?? "")"))
struct SharedFileSystemTests {
    private let bed: FileTestBed
    private let mount: SharedMount

    init() throws {
        bed = try FileTestBed()
        mount = try SharedMount(bed)
    }

    private func overwrite(_ path: FilePath, _ bytes: [UInt8]) throws {
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write(bytes, at: 0)
        try file.close()
    }

    @Test(
        "An open file shows what another machine has written since, heads and chunks",
        arguments: [100, 20_000, 300_000])
    func reading(_ size: Int) throws {
        let path = try bed.make("f", .complete, pattern(1, count: size))
        // Both heads are there, and the length stays.
        try overwrite(path, pattern(2, count: size))
        let reader = try ProtectedFile.open(mount.view.appending("f"), keybag: bed.keybag)
        #expect(try reader.bytes(at: 0, count: size) == pattern(2, count: size))
        for seed: UInt64 in 3..<6 {
            try overwrite(path, pattern(seed, count: size))
            #expect(try reader.bytes(at: 0, count: size) == pattern(seed, count: size), "written by the other machine")
            #expect(try reader.size() == Int64(size))
        }
    }

    @Test("A writer keeps the class that another machine has set meanwhile")
    func writing() throws {
        let path = try bed.make("f", .none, pattern(1, count: 20_000))
        try overwrite(path, pattern(2, count: 20_000))
        let writer = try ProtectedFile.open(mount.view.appending("f"), .readWrite, keybag: bed.keybag)
        try writer.write([1, 2, 3], at: 0)
        try writer.sync()
        try bed.keybag.setProtection(.complete, ofItemAt: path)
        try writer.write([4, 5, 6], at: 0)
        try writer.close()
        #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
        #expect(try !StoredFile(path).heads.hasStaleWrap)
        #expect(try bed.read(path) == [4, 5, 6] + pattern(2, count: 20_000).dropFirst(3))
    }

    @Test("Whether other machines have the file is asked of its file system")
    func whichFiles() throws {
        let path = try bed.make("f", .none, [1])
        let (here, there) = (try LowerFile(path, flags: 0), try LowerFile(mount.view.appending("f"), flags: 0))
        #expect(!here.isShared && there.isShared)
        #expect(!here.isShared && there.isShared, "it stays that")
    }
}
