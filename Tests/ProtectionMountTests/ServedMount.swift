import DataProtection
import Foundation
import FuseSession
import POSIXThreads
import SystemPackage

@testable import ProtectionMount

/// Why nothing can be mounted here; nil if it can be.
let whyNoMount: String? = {
    if access("/dev/fuse", R_OK | W_OK) != 0 { return "there is no /dev/fuse that this user may open" }
    let places = ["/usr/bin/fusermount3", "/bin/fusermount3"]
    return places.contains { access($0, X_OK) == 0 } ? nil : "fusermount3 is not installed"
}()

/// A mount that this process serves itself, so that a test can ask the kernel as only a server can.
final class ServedMount {
    let session: FuseSession
    let point: String
    private let files: MountedTree
    private var server: POSIXThread?

    init(_ source: FilePath, keybag: Keybag) throws {
        point = FileManager.default.temporaryDirectory.path + "/protectfs-mount-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: point, withIntermediateDirectories: true)
        files = try MountedTree(try LowerTree(try LowerDirectory(source)), keybag: keybag)
        session = try FuseSession(files, at: FilePath(point), answersItself: true)
        files.pages.guardPages(of: session) { [weak opened = files.files] in opened?.readable($0) ?? [:] }
        let session = session
        server = try POSIXThread { do throws(Errno) { try session.run(threads: 3) } catch {} }
    }

    /// The number of a file in the root.
    func node(of name: String) throws -> FuseNode {
        let node = try files.lookUp(FilePath.Component(name)!, in: 1).node
        files.forget(node, 1)
        return node
    }

    deinit {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["fusermount3", "-u", "-z", point]
        process.standardError = FileHandle.nullDevice
        try? process.run()
        process.waitUntilExit()
        server?.join()
        rmdir(point)
    }
}

/// A whole file in memory, with all its pages touched.
final class Mapping {
    private let bytes: UnsafeMutableRawBufferPointer

    init(_ path: String) throws {
        let descriptor = open(path, O_RDONLY)
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Errno(rawValue: errno) }
        let start = mmap(nil, Int(status.st_size), PROT_READ, MAP_SHARED, descriptor, 0)
        guard let start, start != MAP_FAILED else { throw Errno(rawValue: errno) }
        bytes = UnsafeMutableRawBufferPointer(start: start, count: Int(status.st_size))
    }

    /// The sum of all bytes.
    var sum: Int { bytes.reduce(0) { $0 + Int($1) } }

    /// mincore(2).
    var residentPages: Int {
        var vector = [UInt8](repeating: 0, count: (bytes.count + 4095) / 4096)
        guard mincore(bytes.baseAddress, bytes.count, &vector) == 0 else { return -1 }
        return vector.count { $0 & 1 == 1 }
    }

    deinit { munmap(bytes.baseAddress, bytes.count) }
}
