import CMemoryFiles
import Glibc
import SystemPackage

/// A file that is open through a mount.
final class HeldDescriptor: HeldFile {
    private let file: FileDescriptor
    private let isWriting: Bool
    private var isClosed = false
    let preamble: [UInt8] = []
    let worksAgain = true

    init(_ file: FileDescriptor, isWriting: Bool) { (self.file, self.isWriting) = (file, isWriting) }

    deinit { try? close() }

    func read(at offset: Int, count: Int) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let done = try bytes.withUnsafeMutableBytes { try file.read(fromAbsoluteOffset: Int64(offset), into: $0) }
        return Array(bytes.prefix(done))
    }

    func write(_ bytes: [UInt8], at offset: Int) throws {
        try file.writeAll(toAbsoluteOffset: Int64(offset), bytes)
    }

    func append(_ bytes: [UInt8]) throws {
        try file.writeAll(toAbsoluteOffset: try file.seek(offset: 0, from: .end), bytes)
    }

    func truncate(to size: Int) throws { try file.resize(to: Int64(size)) }

    func sync() throws { guard fsync(file.rawValue) == 0 else { throw Errno(rawValue: errno) } }

    func close() throws {
        if isClosed { return }
        isClosed = true
        try file.close()
    }

    /// A mount makes no shared mapping of a descriptor that is open for writing.
    func map(count: Int) throws -> any HeldMapping {
        try Mapping(file, count: count, flags: isWriting ? MAP_PRIVATE : MAP_SHARED)
    }

    private final class Mapping: HeldMapping {
        private let bytes: UnsafeRawBufferPointer

        init(_ file: FileDescriptor, count: Int, flags: Int32) throws {
            let start = mmap(nil, count, PROT_READ, flags, file.rawValue, 0)
            guard let start, start != MAP_FAILED else { throw Errno(rawValue: errno) }
            bytes = UnsafeRawBufferPointer(start: start, count: count)
        }

        deinit { munmap(UnsafeMutableRawPointer(mutating: bytes.baseAddress), bytes.count) }

        /// By write(2) into memory, which says EFAULT where a load would end this process by SIGBUS: no page is there. That is ENOKEY here.
        func read() throws -> [UInt8] {
            let copy = FileDescriptor(rawValue: protectfs_memory_file())
            guard copy.rawValue >= 0 else { throw Errno(rawValue: errno) }
            return try copy.closeAfter {
                do {
                    guard try copy.write(toAbsoluteOffset: 0, bytes) == bytes.count else { throw Errno.badAddress }
                } catch Errno.badAddress {
                    throw Errno(rawValue: ENOKEY)
                }
                return try RawFile.bytes(of: copy)
            }
        }
    }
}
