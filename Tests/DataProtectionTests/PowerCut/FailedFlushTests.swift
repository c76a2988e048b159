import Glibc
import PowerCutDisk
import StormScript
import SystemPackage
import Testing

@testable import DataProtection

/// A disk that cannot write: what fsync(2) has failed to make last is never taken for what is there.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"))
struct FailedFlushTests {
    /// The handle says so at every call. The page cache is not believed: who opens the file sees what the disk has, and goes on.
    @Test func stays() throws {
        let disk = try PowerCutDisk(mebibytes: 48)
        let bed = try FileTestBed(in: FilePath(disk.mountPoint))
        try bed.silenceClients()
        let (old, new) = (pattern(1, count: 100_000), pattern(2, count: 5000))
        let path = try bed.make("f", .complete, old)
        try disk.flush()
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write(new, at: 20_000)
        try disk.failWrites(to: path.string)
        let error = #expect(throws: DataProtectionError.self) { try file.sync() }
        #expect(error?.errno == .ioError)
        try disk.failWrites(to: nil)
        expectError("handleFailed") { try file.sync() }
        expectError("handleFailed") { try file.write([1], at: 0) }
        expectError("handleFailed") { try file.close() }

        #expect(try bed.read(path) == old)
        let again = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try again.write(new, at: 20_000)
        try again.close()
        let position = try disk.position()
        try disk.unplug()
        try disk.after(PowerCutDisk.Cut(position: position, seed: 1, loss: .none)) {
            let expected = old[..<20_000] + new + old[25_000...]
            let keybag = try Keybag(at: bed.keybag.directory)
            #expect(try ProtectedFile.contents(of: path, keybag: keybag) == Array(expected))
        }
    }
}
