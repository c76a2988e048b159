import Glibc
import SystemPackage

/// The bytes of a file that is wholly old or wholly new, whatever happens: write, fsync, rename, fsync of the directory.
struct TrustExceptionFile {
    private let path: FilePath
    /// So many bytes are read at most.
    private static let limit = 1 << 20

    init(_ path: FilePath) { self.path = path }

    private var directory: FilePath {
        let parent = path.removingLastComponent()
        return parent.isEmpty ? FilePath(".") : parent
    }

    /// What the file holds; nil if it is not there.
    func read() throws(TrustExceptionStoreError) -> [UInt8]? {
        let file: FileDescriptor
        do throws(TrustExceptionStoreError) {
            file = try check("open") { try .open(path, .readOnly, options: [.noFollow, .closeOnExec, .nonBlocking]) }
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return nil
        } catch .system(_, _, .tooManySymbolicLinkLevels) {
            throw .notOurs(path: path)
        }
        defer { try? file.close() }
        var facts = stat()
        guard fstat(file.rawValue, &facts) == 0 else { throw failure("fstat") }
        guard facts.st_mode & S_IFMT == S_IFREG, facts.st_uid == geteuid(), facts.st_mode & 0o022 == 0 else {
            throw .notOurs(path: path)
        }
        guard facts.st_size <= Self.limit else { throw .garbled(path: path, why: "it has \(facts.st_size) bytes") }
        var bytes = [UInt8](repeating: 0, count: Int(facts.st_size))
        let count = try check("read") {
            try bytes.withUnsafeMutableBytes { bytes in
                var count = 0
                while count < bytes.count {
                    let piece = try file.read(into: UnsafeMutableRawBufferPointer(rebasing: bytes[count...]))
                    guard piece > 0 else { break }
                    count += piece
                }
                return count
            }
        }
        return Array(bytes.prefix(count))
    }

    /// Nobody else changes the file until the descriptor that is returned is closed: flock(2) of its directory.
    func lock() throws(TrustExceptionStoreError) -> Int32 {
        let descriptor = try check("open") {
            try FileDescriptor.open(directory, .readOnly, options: [.directory, .closeOnExec])
        }
        while flock(descriptor.rawValue, LOCK_EX) != 0 {
            guard errno == EINTR else {
                let failure = failure("flock")
                try? descriptor.close()
                throw failure
            }
        }
        return descriptor.rawValue
    }

    /// `.NAME.new`; the name need not be UTF-8.
    private var temporary: FilePath {
        guard let name = path.lastComponent else { return directory.appending(".exceptions.new") }
        let bytes = FilePath(root: nil, [name]).withPlatformString {
            Array(UnsafeBufferPointer(start: $0, count: strlen($0)))
        }
        let hidden = Array(".".utf8CString.dropLast()) + bytes + Array(".new".utf8CString)
        return directory.appending(FilePath(platformString: hidden).components)
    }

    private func remove(_ path: FilePath) { path.withPlatformString { _ = unlink($0) } }

    /// Replaces it, mode 0600. To be called under ``lock()``.
    func replace(by bytes: [UInt8]) throws(TrustExceptionStoreError) {
        let temporary = temporary
        remove(temporary)  // what a killed process left there is in nobody's hands
        do throws(TrustExceptionStoreError) {
            try check("write") {
                let file = try FileDescriptor.open(
                    temporary, .writeOnly, options: [.create, .exclusiveCreate, .noFollow, .closeOnExec],
                    permissions: .ownerReadWrite)
                try file.closeAfter {
                    try file.writeAll(bytes)
                    guard fsync(file.rawValue) == 0 else { throw Errno(rawValue: errno) }
                }
            }
            let isRenamed = temporary.withPlatformString { old in path.withPlatformString { rename(old, $0) } } == 0
            guard isRenamed else { throw failure("rename") }
        } catch {
            remove(temporary)
            throw error
        }
        try check("fsync") {
            let directory = try FileDescriptor.open(directory, .readOnly, options: [.directory, .closeOnExec])
            try directory.closeAfter {
                guard fsync(directory.rawValue) == 0 else { throw Errno(rawValue: errno) }
            }
        }
    }

    private func failure(_ call: String) -> TrustExceptionStoreError {
        .system(path: path, call: call, Errno(rawValue: errno))
    }

    private func check<R>(_ call: String, _ body: () throws -> R) throws(TrustExceptionStoreError) -> R {
        do {
            return try body()
        } catch let errno as Errno {
            throw .system(path: path, call: call, errno)
        } catch {
            throw .garbled(path: path, why: "\(call) failed")
        }
    }
}
