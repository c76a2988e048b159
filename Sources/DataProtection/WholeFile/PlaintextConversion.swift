import Glibc
import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

/// What a conversion did to one file.
public enum ConversionResult: String, Sendable, Hashable {
    /// It was plaintext and is protected now, or the other way round.
    case converted
    /// It was protected by a weaker class.
    case raised
    /// There was nothing to do.
    case unchanged
}

extension Keybag {
    /// Turns a plaintext file into a protected one in place: wholly old or wholly new, whatever happens.
    ///
    /// Mode, owner, times, extended attributes and ACL stay. A protected file of a weaker class is raised; one of the same or
    /// a stronger class is left alone. Old plaintext blocks may survive on flash storage and in snapshots.
    /// - Parameters:
    ///   - path: the file.
    ///   - protectionClass: the class that it has afterwards, at least.
    ///   - progress: called with the number of bytes done.
    /// - Throws: `notRegularFile` (links and devices included), `hasHardLinks`, `busy` if the file changes meanwhile,
    ///   `locked`, `system`. The original is then as it was.
    @discardableResult
    public func protect(
        _ path: FilePath, as protectionClass: ProtectionClass, progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) -> ConversionResult {
        let source = try openForConversion(path)
        if try source.isOneOfOurs() {
            let info = try ProtectedFileInfo(path: path, file: source)
            guard info.protectionClass < protectionClass else { return .unchanged }
            try setProtection(protectionClass, ofItemAt: path)
            return .raised
        }
        let before = try requireSingleName(source)
        let layout: ChunkLayout = before.st_size < ChunkLayout.wholeFileThreshold ? .small : .large
        let new = try NewFile(path, as: protectionClass, layout: layout, keybag: self)
        let buffer = WipedBuffer(count: OpenFile.segment)
        var done: UInt64 = 0
        while case let count = try source.read(into: buffer.bytes, at: done), count > 0 {
            try new.append(UnsafeRawBufferPointer(buffer.prefix(count)))
            done += UInt64(count)
            progress(Int64(done))
        }
        try new.finish(looksOf: source)
        try requireUnchanged(source, before)
        try new.publish(replacing: true)
        return .converted
    }

    /// Turns a protected file into a plaintext one in place. The way back from ``protect(_:as:progress:)``.
    ///
    /// - Throws: `locked`, `damaged`, `busy`, `notRegularFile`, `hasHardLinks`, `system`. The original is then as it was.
    @discardableResult
    public func unprotect(
        _ path: FilePath, progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) -> ConversionResult {
        let source = try openForConversion(path)
        guard try source.isOneOfOurs() else { return .unchanged }
        let before = try requireSingleName(source)
        guard try source.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(path) }
        let open = OpenFile(source, keybag: self, isWritable: false)
        let size = try open.size()
        let plain = try UnnamedFile(path)
        let buffer = WipedBuffer(count: OpenFile.segment)
        var done: UInt64 = 0
        while done < size, case let count = try open.read(into: buffer.bytes, at: done), count > 0 {
            try plain.file.write(UnsafeRawBufferPointer(buffer.prefix(count)), at: done)
            done += UInt64(count)
            progress(Int64(done))
        }
        guard done == size else { throw .busy(path) }
        try FileAttributes.copy(from: source, to: plain.file)
        try plain.file.flushAll()
        try requireUnchanged(source, before)
        try plain.publish(replacing: true)
        return .converted
    }

    /// The file that is going to be replaced: regular, and under exactly this name.
    func openForConversion(_ path: FilePath) throws(DataProtectionError) -> LowerFile {
        do throws(DataProtectionError) {
            let source = try LowerFile(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
            try source.requireRegular()
            return source
        } catch {
            // open(2) says ELOOP for a link, ENXIO for a socket.
            guard error.errno == .tooManySymbolicLinkLevels || error.errno.rawValue == ENXIO else { throw error }
            throw .notRegularFile(path)
        }
    }

    /// What replaces it would leave other names with the old bytes.
    func requireSingleName(_ source: LowerFile) throws(DataProtectionError) -> stat {
        let status = try source.status()
        guard status.st_nlink == 1 else { throw .hasHardLinks(source.path, count: Int(status.st_nlink)) }
        return status
    }

    /// The file must be the one that was read, and still be what it was then.
    func requireUnchanged(_ source: LowerFile, _ before: stat) throws(DataProtectionError) {
        let now = try source.status()
        var named = stat()
        _ = try retrying(source.path, "lstat") { source.path.withPlatformString { lstat($0, &named) } }
        let isSame =
            now.st_size == before.st_size && now.st_mtim.tv_sec == before.st_mtim.tv_sec
            && now.st_mtim.tv_nsec == before.st_mtim.tv_nsec && named.st_ino == before.st_ino
            && named.st_dev == before.st_dev && now.st_nlink == 1
        guard isSame else { throw .busy(source.path) }
    }
}

extension LowerFile {
    /// Whether this is a protected file, intact or not.
    func isOneOfOurs() throws(DataProtectionError) -> Bool {
        let start = try bytes(at: 0, count: Head.length)
        let second = try bytes(at: UInt64(Head.length), count: 8)
        return try withKeys { () throws(KeyError) in try Head.looksLikeOurs(start: start, second: second) }
    }
}

extension ChunkLayout {
    /// Files of at least this many bytes that are written whole get 64 KiB chunks.
    static let wholeFileThreshold = 256 * 1024
}
