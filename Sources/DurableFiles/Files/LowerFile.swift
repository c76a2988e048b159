import Glibc
import ProtectionFormat
import ProtectionKeys
import Synchronization
import SystemPackage

/// An open file of the operating system: whole reads and writes, flushes with their errors, byte locks.
package final class LowerFile: Sendable {
    package let path: FilePath
    package let descriptor: Int32
    private let isClosed = Atomic(false)
    /// Whether a byte lock is kept until the end.
    private let keepsLock = Atomic(false)
    /// Of a file that was made without a name: its name, opened with O_PATH; otherwise -1. The kernel calls the file itself "deleted".
    private let named = Atomic<Int32>(-1)
    /// Whether the file is on a shared file system: 0 if nobody has asked, 1 no, 2 yes.
    private let sharing = Atomic<UInt8>(0)

    /// open(2) with O_CLOEXEC.
    package init(_ path: FilePath, flags: Int32, mode: mode_t = 0o600) throws(DataProtectionError) {
        let descriptor = try retrying(path, "open") {
            path.withPlatformString { Glibc.open($0, flags | O_CLOEXEC, mode) }
        }
        self.descriptor = descriptor
        self.path = path
    }

    /// Takes over a descriptor.
    package init(path: FilePath, descriptor: Int32) {
        self.path = path
        self.descriptor = descriptor
    }

    /// Leads to this file, whatever its path leads to. For calls that take no descriptor.
    package var descriptorPath: FilePath { FilePath("/proc/self/fd/\(descriptor)") }

    /// Another descriptor of the same open file description: the same locks.
    package func duplicate() throws(DataProtectionError) -> Int32 {
        try retrying(path, "fcntl") { fcntl(descriptor, F_DUPFD_CLOEXEC, 0) }
    }

    /// The file was made without a name, and has this one in an open directory now: ``place()`` follows it.
    package func isNow(_ name: FilePath.Component, in directory: Int32) {
        let opened = name.withPlatformString {
            openat(directory, $0, Self.pathOnly | O_NOFOLLOW | O_CLOEXEC)
        }
        guard opened >= 0 else { return }
        var (own, found) = (stat(), stat())
        let isSame =
            fstat(opened, &found) == 0 && fstat(descriptor, &own) == 0 && found.st_ino == own.st_ino
            && found.st_dev == own.st_dev
        let old = isSame ? named.exchange(opened, ordering: .relaxed) : opened
        if old >= 0 { _ = Glibc.close(old) }
    }

    /// Leads to the file by a descriptor whose name the kernel knows.
    package var namedDescriptorPath: FilePath {
        let opened = named.load(ordering: .relaxed)
        return opened >= 0 ? FilePath("/proc/self/fd/\(opened)") : descriptorPath
    }

    private func closeName() {
        let opened = named.exchange(-1, ordering: .relaxed)
        if opened >= 0 { _ = Glibc.close(opened) }
    }

    deinit {
        closeName()
        guard !isClosed.load(ordering: .relaxed) else { return }
        giveBackLocks()
        _ = Glibc.close(descriptor)
    }

    /// close(2), with its error; the descriptor is gone in any case. Called once. Its locks are given back, or left to a child that inherited it.
    package func close(keepingLocks: Bool = false) throws(DataProtectionError) {
        guard !isClosed.exchange(true, ordering: .relaxed) else { return }
        closeName()
        if !keepingLocks { giveBackLocks() }
        guard Glibc.close(descriptor) == 0 || errno == EINTR else {
            throw .system(path, operation: "close", Errno(rawValue: errno))
        }
    }

    /// pread(2) until `buffer` is full or the file ends; returns how many bytes were read.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(DataProtectionError) -> Int
    {
        var done = 0
        while done < buffer.count {
            let start = buffer.baseAddress! + done
            let count = try retrying(path, "pread") {
                pread(descriptor, start, buffer.count - done, off_t(offset) + off_t(done))
            }
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// Up to `count` bytes from `offset`.
    package func bytes(at offset: UInt64, count: Int) throws(DataProtectionError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let read = try bytes.lendMutableBytes { buffer throws(DataProtectionError) in
            try self.read(into: buffer, at: offset)
        }
        bytes.removeLast(count - read)
        return bytes
    }

    /// In bytes: so much is written at once, a large sealed chunk whole. On a virtual machine with ext4, pieces of a mebibyte took five to
    /// ten times the CPU time; perhaps because of large folios in the page cache. docs/design/BENCHMARKS.md.
    private static let piece = ChunkLayout.large.chunkSize + ChunkLayout.overhead

    /// pwrite(2) of all of `buffer`.
    package func write(_ buffer: UnsafeRawBufferPointer, at offset: UInt64) throws(DataProtectionError) {
        guard offset < UInt64(Int64.max) - UInt64(buffer.count) else {
            throw .system(path, operation: "pwrite", .fileTooLarge)
        }
        var done = 0
        while done < buffer.count {
            let (start, count) = (buffer.baseAddress! + done, min(buffer.count - done, Self.piece))
            done += try retrying(path, "pwrite") {
                pwrite(descriptor, start, count, off_t(offset) + off_t(done))
            }
        }
    }

    /// pwrite(2) of all of `bytes`.
    package func write(_ bytes: [UInt8], at offset: UInt64) throws(DataProtectionError) {
        try bytes.lendBytes { buffer throws(DataProtectionError) in try write(buffer, at: offset) }
    }

    /// fdatasync(2).
    package func flush() throws(DataProtectionError) { try flushing("fdatasync") { fdatasync(descriptor) } }

    /// fsync(2): metadata too.
    package func flushAll() throws(DataProtectionError) { try flushing("fsync") { fsync(descriptor) } }

    /// Linux marks pages clean that it could not write back, and still shows them (fsync(2), NOTES). It is asked to drop them, so that the next
    /// reader sees what is on the disk, not what would be lost. Pages that a program has mapped stay.
    ///
    /// A handle whose flush has failed stays failed, and the file does not. The next handle judges the disk as after a power cut. To
    /// remember the file as failed would need a place to write that down, on the same disk.
    private func flushing(_ operation: String, _ call: () -> Int32) throws(DataProtectionError) {
        #if PROTECTFS_CONTROLS
            let isDirectory = try status().st_mode & S_IFMT == S_IFDIR
            if Omission.current == Omission(rawValue: isDirectory ? "directory" : operation) { return }
        #endif
        do throws(DataProtectionError) { _ = try retrying(path, operation, call) } catch {
            _ = posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
            throw error
        }
    }

    /// ftruncate(2).
    package func truncate(to length: UInt64) throws(DataProtectionError) {
        _ = try retrying(path, "ftruncate") { ftruncate(descriptor, off_t(length)) }
    }

    /// fstat(2).
    package func status() throws(DataProtectionError) -> stat {
        var status = stat()
        _ = try retrying(path, "fstat") { fstat(descriptor, &status) }
        return status
    }

    /// Whether it is what has that name now.
    package func isNamed(_ path: FilePath, followingLinks: Bool = false) throws(DataProtectionError) -> Bool {
        var named = stat()
        let own = try status()
        let result = path.withPlatformString { followingLinks ? stat($0, &named) : lstat($0, &named) }
        return result == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev
    }

    /// Whether it is on a file system that other machines can have too. Asked once: an open file stays where it is.
    package var isShared: Bool {
        let known = sharing.load(ordering: .relaxed)
        if known != 0 { return known == 2 }
        let isShared = SharedFileSystem.holds(descriptor)
        sharing.store(isShared ? 2 : 1, ordering: .relaxed)
        return isShared
    }

    /// The length in bytes.
    package func length() throws(DataProtectionError) -> UInt64 { UInt64(try status().st_size) }

    // MARK: locks

    package enum LockKind { case shared, exclusive }

    /// How long somebody may hold a lock before the file counts as in use, in nanoseconds.
    package static let patience: UInt64 = 5_000_000_000

    /// Takes a byte lock of this open file description (fcntl(2), F_OFD_SETLKW) and gives it back after `body`.
    ///
    /// - Parameter patience: in nanoseconds. Any reader of the file can hold a lock for ever. Nil: only for what cannot be abandoned.
    /// - Throws: `busy`; what `body` throws.
    package func withByteLock<R>(
        _ byte: off_t, _ kind: LockKind, waiting patience: UInt64? = 30_000_000_000,
        _ body: () throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        let type = kind == .shared ? F_RDLCK : F_WRLCK
        if let patience { try setLock(byte, type, patience: patience) } else { try setLock(byte, type, waiting: true) }
        let result: Result<R, DataProtectionError>
        do throws(DataProtectionError) { result = .success(try body()) } catch { result = .failure(error) }
        try setLock(byte, F_UNLCK, waiting: false)
        return try result.get()
    }

    /// Takes a byte lock for as long as the file is open; false if somebody else holds it.
    package func tryByteLock(_ byte: off_t, _ kind: LockKind) throws(DataProtectionError) -> Bool {
        do throws(DataProtectionError) {
            try setLock(byte, kind == .shared ? F_RDLCK : F_WRLCK, waiting: false)
            keepsLock.store(true, ordering: .relaxed)
            return true
        } catch .system(_, _, .resourceTemporarilyUnavailable) {
            return false
        } catch .system(_, _, .permissionDenied) {
            return false
        }
    }

    /// Closing is not enough: a child between fork(2) and exec(2) has the open file too, and the lock with it.
    private func giveBackLocks() {
        guard keepsLock.load(ordering: .relaxed) else { return }
        var all = byteLock(0, F_UNLCK)
        all.l_len = 0  // to the end, wherever that is
        _ = fcntl(descriptor, 37, &all)
    }

    /// Gives a byte lock back.
    package func unlockByte(_ byte: off_t) throws(DataProtectionError) { try setLock(byte, F_UNLCK, waiting: false) }

    /// Whether another open file description holds a lock on a byte that keeps this one from a lock of that kind: an exclusive one as a rule. Nobody is
    /// kept from anything by being asked.
    package func isLockedElsewhere(
        _ byte: off_t, for kind: LockKind = .shared
    ) throws(DataProtectionError) -> Bool {
        var lock = byteLock(byte, kind == .shared ? F_RDLCK : F_WRLCK)
        _ = try retrying(path, "fcntl") { fcntl(descriptor, 36, &lock) }  // F_OFD_GETLK
        return lock.l_type != Int16(F_UNLCK)
    }

    /// The bytes of a range on which other open file descriptions hold locks, each of one byte; the first of them, if there are more than `limit`.
    package func bytesLockedElsewhere(
        in range: Range<off_t>, atMost limit: Int
    ) throws(DataProtectionError) -> [off_t] {
        var (bytes, start): ([off_t], off_t) = ([], range.lowerBound)
        while start < range.upperBound, bytes.count < limit {
            var lock = byteLock(start, F_WRLCK, count: range.upperBound - start)
            _ = try retrying(path, "fcntl") { fcntl(descriptor, 36, &lock) }  // F_OFD_GETLK
            if lock.l_type == Int16(F_UNLCK) { break }
            bytes.append(max(lock.l_start, start))
            start = bytes[bytes.count - 1] + 1
        }
        return bytes
    }

    private func byteLock(_ byte: off_t, _ type: Int32, count: off_t = 1) -> flock {
        var lock = flock()
        lock.l_type = Int16(type)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = byte
        lock.l_len = count
        return lock
    }

    /// - Throws: `busy` after that time.
    private func setLock(_ byte: off_t, _ type: Int32, patience: UInt64) throws(DataProtectionError) {
        let end = ContinuousClock.now + .nanoseconds(Int64(clamping: patience))
        var pause: UInt32 = 50
        while true {
            do throws(DataProtectionError) { return try setLock(byte, type, waiting: false) } catch {
                guard error.errno == .resourceTemporarilyUnavailable || error.errno == .permissionDenied else {
                    throw error
                }
            }
            guard ContinuousClock.now < end else { throw .busy(path) }
            usleep(pause)
            pause = min(2 * pause, 5_000)
        }
    }

    private func setLock(_ byte: off_t, _ type: Int32, waiting: Bool) throws(DataProtectionError) {
        var lock = byteLock(byte, type)
        let command: Int32 = waiting ? 38 : 37  // F_OFD_SETLKW, F_OFD_SETLK: behind _GNU_SOURCE in fcntl.h
        _ = try retrying(path, "fcntl") { fcntl(descriptor, command, &lock) }
    }
}

/// Repeats a system call that was interrupted, and turns its error into ours.
package func retrying<I: SignedInteger>(
    _ path: FilePath, _ operation: String, _ call: () -> I
) throws(DataProtectionError) -> I {
    while true {
        let (result, error) = (call(), errno)
        if result >= 0 { return result }
        if error == EAGAIN, operation.hasPrefix("open") { throw .busy(path) }  // somebody has a lease of it: fcntl(2)
        if error != EINTR { throw .system(path, operation: operation, Errno(rawValue: error)) }
    }
}
