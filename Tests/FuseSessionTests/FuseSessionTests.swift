import Foundation
import FuseSession
import POSIXThreads
import Synchronization
import SystemPackage
import Testing

/// Why nothing can be mounted here; nil if it can be.
private let whyNoMount: String? = {
    if access("/dev/fuse", R_OK | W_OK) != 0 { return "there is no /dev/fuse that this user may open" }
    let places = ["/usr/bin/fusermount3", "/bin/fusermount3"]
    return places.contains { access($0, X_OK) == 0 } ? nil : "fusermount3 is not installed"
}()

@Suite("The kernel's FUSE driver", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct FuseSessionTests {
    private let mount: MemoryMount
    private var files: MemoryFiles { mount.files }
    init() throws { mount = try MemoryMount() }

    @Test("Names, attributes, links, bytes and statistics are those that the file system says")
    func looking() throws {
        #expect(try FileManager.default.contentsOfDirectory(atPath: mount.point).sorted() == ["data", "link"])
        var status = stat()
        #expect(lstat(mount.path("data"), &status) == 0)
        #expect(status.st_size == MemoryFiles.contents.count && status.st_mode == S_IFREG | 0o644)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: mount.path("link")) == "data")
        #expect(try Data(contentsOf: URL(fileURLWithPath: mount.path("link"))) == Data(MemoryFiles.contents))
        #expect(access(mount.path("nothing"), F_OK) == -1 && errno == ENOENT)
        var statistics = statvfs()
        #expect(statvfs(mount.point, &statistics) == 0)
        #expect(statistics.f_blocks == 1234)
    }

    @Test("Calls that write are refused, and the file system is not asked")
    func readOnly() {
        for flags in [O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC] {
            #expect(open(mount.path("data"), flags) == -1 && errno == EROFS)
        }
        #expect(open(mount.path("new"), O_WRONLY | O_CREAT, 0o600) == -1 && errno == EROFS)
        #expect(mkdir(mount.path("new"), 0o700) == -1 && errno == EROFS)
        #expect(unlink(mount.path("data")) == -1 && errno == EROFS)
    }

    @Test("Dropped pages have gone from a mapping and from the cache, and come back when they are read")
    func drop() throws {
        let mapping = try Mapping(mount.path("data"))
        #expect(mapping.matches(MemoryFiles.contents))
        #expect(mapping.residentPages == mapping.pages)
        #expect(try mount.session.cachedByteCount(of: MemoryFiles.data, limit: 1 << 20) >= MemoryFiles.contents.count)
        try mount.session.dropPages(of: MemoryFiles.data)
        #expect(mapping.residentPages == 0)
        #expect(try mount.session.cachedByteCount(of: MemoryFiles.data, limit: 1 << 20) == 0)
        let before = files.reads
        #expect(mapping.matches(MemoryFiles.contents))
        #expect(files.reads > before)
    }

    @Test("Dropping waits for a read under way, and takes its bytes with the others")
    func dropWhileReading() throws {
        let descriptor = open(mount.path("data"), O_RDONLY)
        defer { close(descriptor) }
        files.holdReads()
        let (files, session) = (files, mount.session)
        let reader = try POSIXThread {
            var byte: UInt8 = 0
            _ = pread(descriptor, &byte, 1, 0)
        }
        files.isHeld.wait()
        // As at a lock: what begins from now on is refused.
        files.refuseReads()
        let dropping = try POSIXThread {
            do throws(Errno) { try session.dropPages(of: MemoryFiles.data) } catch { files.note("\(error)") }
            files.note("dropped")
        }
        // Enough for a drop that does not wait.
        usleep(50_000)
        files.goesOn.signal()
        reader.join()
        dropping.join()
        #expect(files.events == ["reply", "dropped"])
        #expect(try session.cachedByteCount(of: MemoryFiles.data, limit: 1 << 20) == 0)
        var byte: UInt8 = 0
        #expect(pread(descriptor, &byte, 1, 0) == -1 && errno == ENOKEY)
        files.holdReads(false)
        files.refuseReads(false)
        #expect(pread(descriptor, &byte, 1, 7) == 1 && byte == MemoryFiles.contents[7])
    }

    @Test("Nodes that the kernel does not know are dropped without an error")
    func unknown() throws {
        #expect(access(mount.point, F_OK) == 0)  // before the first request nothing can be dropped
        try mount.session.dropPages(of: 4711)
        #expect(try mount.session.cachedByteCount(of: 4711, limit: 4096) == 0)
    }

    @Test("A handle is released when its last mapping has gone")
    func release() throws {
        var mapping: Mapping? = try Mapping(mount.path("data"))
        #expect(mapping?.matches(MemoryFiles.contents) == true)
        #expect(!files.events.contains("release 9"))
        mapping = nil
        // RELEASE is sent without anybody waiting for it.
        for _ in 0..<500 where !files.events.contains("release 9") { usleep(10_000) }
        #expect(files.events.contains("release 9"))
    }

    @Test("Unmounting ends the session, and no page is left")
    func unmount() throws {
        #expect(try Data(contentsOf: URL(fileURLWithPath: mount.path("data"))).count == MemoryFiles.contents.count)
        mount.unmount()
        #expect(mount.waitForEnd() == nil)
        // The kernel knows no node any more, or refuses the question.
        let left = (try? mount.session.cachedByteCount(of: MemoryFiles.data, limit: 4096)) ?? 0
        #expect(left == 0)
    }
}

/// A mount of ``MemoryFiles``, and the thread that serves it.
private final class MemoryMount {
    let files = MemoryFiles()
    let session: FuseSession
    let point: String
    private var server: POSIXThread?
    private let failure: Failure

    private final class Failure: Sendable { let errno = Mutex<Errno?>(nil) }

    init() throws {
        point = FileManager.default.temporaryDirectory.path + "/protectfs-fuse-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: point, withIntermediateDirectories: true)
        session = try FuseSession(files, at: FilePath(point), answersItself: true)
        let (session, failure) = (session, Failure())
        self.failure = failure
        server = try POSIXThread {
            do throws(Errno) { try session.run(threads: 3) } catch { failure.errno.withLock { $0 = error } }
        }
    }

    func path(_ name: String) -> String { point + "/" + name }

    /// As fusermount3(1) does it, also where something is open.
    func unmount() {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["fusermount3", "-u", "-z", point]
        process.standardError = FileHandle.nullDevice
        try? process.run()
        process.waitUntilExit()
    }

    /// - Returns: why it did not end in order.
    func waitForEnd() -> Errno? {
        server?.join()
        server = nil
        return failure.errno.withLock { $0 }
    }

    deinit {
        unmount()
        _ = waitForEnd()
        rmdir(point)
    }
}

/// A whole file in memory.
private final class Mapping {
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

    var pages: Int { (bytes.count + 4095) / 4096 }

    /// mincore(2).
    var residentPages: Int {
        var vector = [UInt8](repeating: 0, count: pages)
        guard mincore(bytes.baseAddress, bytes.count, &vector) == 0 else { return -1 }
        return vector.count { $0 & 1 == 1 }
    }

    func matches(_ expected: [UInt8]) -> Bool { bytes.elementsEqual(expected) }

    deinit { munmap(bytes.baseAddress, bytes.count) }
}
