import Glibc
import ProtectionFormat
import SystemPackage

/// A file that is about to be replaced by a converted one: it is that file, and nobody writes to it, until the end or not at all.
///
/// A read lease (fcntl(2), F_SETLEASE) tells whether somebody has it open for writing, and makes who wants to open it so wait
/// while it is being converted. Where there are no leases, size and times must do.
package final class ConversionSource {
    package let entry: DirectoryEntry
    package let file: LowerFile
    private var before = stat()
    private var hasLease = false
    /// Nobody lists its directory.
    private var isByName = false

    // Of fcntl.h, behind _GNU_SOURCE.
    private static let setLease: Int32 = 1024
    private static let getLease: Int32 = 1025
    private static let setSignal: Int32 = 10
    private static let leavingAccessTime: Int32 = 0o1_000_000

    /// Opens the file without holding it: other processes can still use it.
    ///
    /// - Throws: `notRegularFile`, links and devices included; `system`.
    package init(_ entry: DirectoryEntry) throws(DataProtectionError) {
        self.entry = entry
        // Opening a device can move it: nothing that is not a file is opened on purpose.
        if let status = try entry.directory.status(of: entry.name), status.st_mode & S_IFMT != S_IFREG {
            throw .notRegularFile(entry.path)
        }
        file = try entry.directory.file(entry.name, flags: O_RDONLY, path: entry.path)
        // To look at a file is not to use it. Only its owner may say so.
        _ = fcntl(file.descriptor, F_SETFL, Self.leavingAccessTime)
    }

    /// The same by a path.
    package convenience init(_ path: FilePath) throws(DataProtectionError) {
        try self.init(named: DirectoryEntry(path))
    }

    /// The same for a caller that does not remove what killed conversions have left in the directory.
    package convenience init(named entry: DirectoryEntry) throws(DataProtectionError) {
        try self.init(entry)
        isByName = true
    }

    package var inode: UInt64 { UInt64(before.st_ino) }
    /// In bytes.
    package var size: UInt64 { UInt64(before.st_size) }
    /// What it takes on disk, in bytes.
    package var allocated: UInt64 { byteCount(ofBlocks: UInt64(clamping: before.st_blocks), of: 512) }
    /// Whether parts of it take no place there.
    package var isSparse: Bool { allocated < size }

    /// From now on it is held.
    ///
    /// - Throws: `hasHardLinks`; `system` with EPERM if it, or its directory, is immutable or append-only; `busy` if
    ///   somebody has it open for writing, or locked.
    package func hold() throws(DataProtectionError) {
        before = try file.status()
        guard before.st_nlink == 1 else { throw .hasHardLinks(entry.path, count: Int(before.st_nlink)) }
        // The system would say so in the end, and in such a directory a name, once made, could not be taken away again.
        guard !file.isFixed, !entry.directory.isFixed else {
            throw .system(entry.path, operation: "rename", .notPermitted)
        }
        // The next who finds its name where it must not stay, after a kill, learns by this lock that we are alive.
        guard flock(file.descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK else { throw .busy(entry.path) }
        clearUp()
        // What a broken lease sends by default would end the process; this does nothing to anybody, and is not sent either.
        _ = fcntl(file.descriptor, Self.setSignal, SIGURG)
        hasLease = try takesLease()
        _ = fcntl(file.descriptor, F_SETOWN, 0)
    }

    /// Takes away what dead processes left beside it, unless its directory is listed by somebody. Where there is nothing to convert
    /// too: one that ended between the change of names and the removal has converted the file, and left the original.
    package func clearUp() {
        if isByName { Leftovers.remove(in: entry.directory) }
    }

    /// - Returns: false where there are no leases.
    private func takesLease() throws(DataProtectionError) -> Bool {
        for _ in 0..<20 {
            if fcntl(file.descriptor, Self.setLease, F_RDLCK) == 0 { return true }
            guard errno == EAGAIN else { return false }
            // The writer may just have closed the file; a child between fork(2) and exec(2) may still have it open.
            usleep(5_000)
        }
        throw .busy(entry.path)
    }

    /// - Throws: `busy` if somebody wants to write to the file, and waits for us.
    package func requireLease() throws(DataProtectionError) {
        if hasLease, fcntl(file.descriptor, Self.getLease) != F_RDLCK { throw .busy(entry.path) }
    }

    /// - Throws: `busy` unless it is as it was, and under its name.
    package func requireUntouched() throws(DataProtectionError) {
        try requireLease()
        let now = try file.status()
        guard now.isSameContent(as: before), now.st_ctim == before.st_ctim, isNamed(entry) else {
            throw .busy(entry.path)
        }
    }

    /// Whether it, with the bytes that it had, is what `other` names: after a change of names, which sets its change time.
    package func isUntouched(as other: DirectoryEntry) -> Bool {
        guard (try? requireLease()) != nil, let now = try? file.status() else { return false }
        return now.isSameContent(as: before) && isNamed(other)
    }

    private func isNamed(_ entry: DirectoryEntry) -> Bool {
        guard let named = try? entry.directory.status(of: entry.name) else { return false }
        return named.isSameItem(as: before)
    }
}

extension stat {
    /// The same size, time of writing, and one name.
    fileprivate func isSameContent(as other: stat) -> Bool {
        st_size == other.st_size && st_mtim == other.st_mtim && st_nlink == 1
    }
}

extension timespec {
    fileprivate static func == (one: timespec, other: timespec) -> Bool {
        one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec
    }
}

extension UnnamedFile {
    /// Takes the place of `source`, and makes that last; the old bytes are gone then.
    ///
    /// The two change names in one step, and only then it is certain what was replaced: anything but the file that was read,
    /// and that nobody has written to since, is put back.
    /// - Parameter isInPlace: asked at the last moment whether the directory is where it belongs.
    /// - Throws: `busy`, `system`; the original is then as it was.
    package func replace(
        _ source: ConversionSource, where isInPlace: () throws(DataProtectionError) -> Bool
    ) throws(DataProtectionError) {
        let directory = entry.directory
        let temporary = try named(exchanging: source.inode)
        // A program that opens the new file for writing before it is certain to stay would lose its writes.
        guard try file.tryByteLock(ByteLocks.writer, .exclusive) else { throw .busy(entry.path) }
        try source.requireUntouched()
        guard try isInPlace() else { throw .busy(entry.path) }
        if try directory.exchange(temporary.name, entry.name) {
            guard source.isUntouched(as: temporary) else {
                try putBack(temporary, source)
                throw .busy(entry.path)
            }
            try directory.remove(temporary.name)
        } else {
            try directory.rename(temporary.name, to: entry.name)
        }
        try file.unlockByte(ByteLocks.writer)
        // One flush for both: journals keep their order, and a name that comes back is a dead process's.
        try hasName()
    }

    /// Undoes the exchange. What somebody has put under the name since then is newer than what was there before, and stays.
    private func putBack(_ temporary: DirectoryEntry, _ source: ConversionSource) throws(DataProtectionError) {
        let directory = entry.directory
        for _ in 0..<Self.patience {
            if try entry.leads(to: file) {
                do throws(DataProtectionError) {
                    _ = try directory.exchange(temporary.name, entry.name)
                    if try temporary.leads(to: file) { return }
                    // They have put something there in this very moment.
                    _ = try directory.exchange(temporary.name, entry.name)
                } catch .system(_, _, .noSuchFileOrDirectory) {
                    // They have taken the name away in this very moment.
                }
            }
            // A program that replaced or deleted the new file meant the one that had the name before. A program that renamed the new file has the
            // original's bytes under that name.
            let left = try directory.status(of: temporary.name)
            let isReplaced = try file.status().st_nlink == 0
            if isReplaced || left.map({ UInt64($0.st_ino) }) == source.inode {
                return try directory.remove(temporary.name)
            }
            usleep(1000)  // they have moved it away: perhaps only to bring it back
        }
        do throws(DataProtectionError) { try directory.renameIfFree(temporary.name, to: entry.name) } catch .exists {}
    }

    /// How often to look whether the new file is back under its name, once a millisecond.
    private static let patience = 100
}
