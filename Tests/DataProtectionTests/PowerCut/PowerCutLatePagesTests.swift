import Glibc
import PowerCutDisk
import SystemPackage
import Testing

@testable import DataProtection

/// Pages that come after a lock, on a disk that loses power or fails. A mount with such a disk is in PowerCutMountTests.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"), .serialized)
struct PowerCutLatePagesTests {
    private let disk: PowerCutDisk
    private let bed: FileTestBed

    init() throws {
        disk = try PowerCutDisk(mebibytes: 48)
        bed = try FileTestBed(in: FilePath(disk.mountPoint))
        try bed.silenceClients()
    }

    /// Keeps pages of a locked file, for as long as `body` works.
    private func keeping(_ body: (LatePagesFile) throws -> Void) throws {
        let file = try ProtectedFile.open(bed.make("f", .complete, [1, 2, 3]), .readWrite, keybag: bed.keybag)
        let key = try file.latePagesKey()
        try bed.keybag.lock()
        try body(try LatePagesFile(of: file, under: key, keybag: bed.keybag))
        try file.close()
    }

    @Test("The file that keeps them has its beginning before it has its name")
    func header() throws {
        var position = 0
        try keeping { _ in position = try disk.position() }
        try disk.unplug()
        try disk.after(PowerCutDisk.Cut(position: position, seed: 1, loss: .none)) {
            let queue = bed.keybag.directory.appending("queue")
            let name = try #require(try queue.names().first { $0.hasSuffix(".late") })
            #expect(try queue.appending(name).contents().starts(with: Array("PFSLATES".utf8)))
        }
    }

    @Test("After a flush that failed none succeeds: what comes later is behind bytes that may not be there")
    func failedFlush() throws {
        try keeping { kept in
            func add() throws { try [7, 7].lendBytes { try kept.add($0, at: 0) } }
            try add()
            try kept.flush()
            try disk.failWrites(to: kept.path.string)
            try add()
            for isOver in [false, true] {
                if isOver { try disk.failWrites(to: nil) }
                let error = #expect(throws: DataProtectionError.self) { try kept.flush() }
                #expect(error?.errno == .ioError)
                try add()
            }
        }
    }
}
