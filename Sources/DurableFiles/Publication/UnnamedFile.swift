import Glibc
import SystemPackage

/// A file that has no name yet (O_TMPFILE, open(2)): when its process dies, it was never there.
///
/// Where the file system has no such files it has a temporary name from the beginning, which goes with this object; a name
/// like that which a killed process left is taken away by the next who needs it. FORMAT.md §2.6. So it has where other machines may
/// write: a file that got its name by linkat(2) can be two files there, with a cache each. It is renamed, never linked.
///
/// Local file systems keep linkat(2), because a kill leaves nothing under any name then. Where a hidden name is renamed to a name that
/// must be free, and RENAME_NOREPLACE is unknown, a kill can leave an empty file.
package final class UnnamedFile {
    /// Where it will be.
    package let entry: DirectoryEntry
    package let file: LowerFile
    /// The name that it has for the time being.
    private var temporary: DirectoryEntry?

    /// O_TMPFILE of fcntl.h, which hides it behind _GNU_SOURCE: 020000000 | O_DIRECTORY.
    private static let withoutName: Int32 = 0o20_000_000 | O_DIRECTORY
    /// What open(2) says where the file system or the kernel has no such files.
    private static let hasNone: [Errno] = [.notSupported, .isDirectory, .invalidArgument, .noSuchFileOrDirectory]

    /// Makes a file in the directory of `entry`: 0666 less the umask, as open(2) would make it under its name. One with a temporary
    /// name is for its owner alone until ``takeUsualMode()``, or until it gets the mode of another file.
    ///
    /// - Parameter isNamed: whether it has a temporary name whatever the file system can do.
    package init(_ entry: DirectoryEntry, isNamed: Bool = false) throws(DataProtectionError) {
        self.entry = entry
        if !isNamed, !SharedFileSystem.holds(entry.directory.descriptor), let unnamed = try Self.unnamed(entry) {
            file = unnamed
        } else {
            (file, temporary) = try Self.named(entry)
        }
        // Held until the file has its name: a name like its temporary one without this lock is a dead process's.
        _ = try retrying(entry.path, "flock") { flock(file.descriptor, LOCK_EX | LOCK_NB) }
    }

    /// The same by a path.
    package convenience init(_ path: FilePath) throws(DataProtectionError) { try self.init(DirectoryEntry(path)) }

    deinit {
        // Where two names were exchanged and could not be put back, the original has this name.
        guard let temporary, let named = try? temporary.directory.status(of: temporary.name),
            named.st_ino == (try? file.status().st_ino)
        else { return }
        try? temporary.directory.remove(temporary.name)
    }

    /// Gives the file, which is flushed, its name, and makes that last.
    ///
    /// - Parameter isLast: false: the caller makes the names in this directory last, when all are there.
    /// - Throws: `exists` if there is something under that name and `replacing` is false.
    package func publish(replacing: Bool, isLast: Bool = true) throws(DataProtectionError) {
        if let temporary, replacing {
            try entry.directory.rename(temporary.name, to: entry.name)
        } else {
            do throws(DataProtectionError) {
                try takeName(entry)
            } catch .exists {
                guard replacing else { throw .exists(entry.path) }
                try entry.directory.rename(try named().name, to: entry.name)
            }
        }
        try hasName(isLast: isLast)
    }

    /// The name is final: the file may stay open, and others may want to lock it.
    package func hasName(isLast: Bool = true) throws(DataProtectionError) {
        temporary = nil
        _ = try retrying(entry.path, "flock") { flock(file.descriptor, LOCK_UN) }
        if isLast { try entry.directory.flush() }
    }

    /// Gives the file a name in its directory that is free. The name does not last through a power cut yet.
    ///
    /// - Throws: `exists`.
    package func takeName(_ other: DirectoryEntry) throws(DataProtectionError) {
        if let temporary {
            try other.directory.renameIfFree(temporary.name, to: other.name)
            self.temporary = nil
            return
        }
        do throws(DataProtectionError) { try other.directory.link(file, as: other.name) } catch {
            throw error.errno == .fileExists ? .exists(other.path) : error
        }
    }

    /// Gives a file that has a temporary name the mode that it would have without one: 0666 less the umask. Only for contents that
    /// everybody may see, and before any other mode is set. Where a file system has no modes, nothing happens.
    package func takeUsualMode() throws(DataProtectionError) {
        guard temporary != nil, let mask = Self.umask() else { return }
        do throws(DataProtectionError) {
            _ = try retrying(entry.path, "fchmod") { fchmod(file.descriptor, 0o666 & ~mask) }
        } catch {
            guard [.notPermitted, .notSupported, .noFunction].contains(error.errno) else { throw error }
        }
    }

    /// umask(2) can only be read by setting it, for all threads at once: proc(5) has it since Linux 4.7.
    private static func umask() -> mode_t? {
        guard let file = try? LowerFile("/proc/self/status", flags: O_RDONLY),
            let bytes = try? file.bytes(at: 0, count: 4096),
            let line = bytes.split(separator: UInt8(ascii: "\n")).first(where: { $0.starts(with: "Umask:".utf8) })
        else { return nil }
        return mode_t(String(decoding: line.dropFirst(7), as: UTF8.self), radix: 8)
    }

    /// A name for a moment, for renameat(2) to replace with: it has no form for unnamed files. The name goes with this object.
    private func named() throws(DataProtectionError) -> DirectoryEntry {
        if let temporary { return temporary }
        let name = try Self.firstFree(entry) { name throws(DataProtectionError) in
            try name.directory.link(file, as: name.name)
            return name
        }
        temporary = name
        return name
    }

    /// A name for a moment, to be exchanged with that of the file with this inode number.
    ///
    /// It names both: should we be killed, nothing but these two is taken away, and not what somebody has just put there.
    package func named(exchanging old: UInt64) throws(DataProtectionError) -> DirectoryEntry {
        let name = entry.beside(unfinished: "\(old)-\(UInt64(try file.status().st_ino))")
        if let temporary {
            try name.directory.rename(temporary.name, to: name.name)
        } else {
            try name.directory.link(file, as: name.name)
        }
        temporary = name
        return name
    }

    // MARK: making

    /// Nil where the file system has no such files.
    private static func unnamed(_ entry: DirectoryEntry) throws(DataProtectionError) -> LowerFile? {
        do throws(DataProtectionError) {
            let descriptor = try retrying(entry.path, "open") {
                openat(entry.directory.descriptor, ".", O_RDWR | O_CLOEXEC | withoutName, 0o666)
            }
            return LowerFile(path: entry.path, descriptor: descriptor)
        } catch {
            guard hasNone.contains(error.errno) else { throw error }
            return nil
        }
    }

    private static func named(_ entry: DirectoryEntry) throws(DataProtectionError) -> (LowerFile, DirectoryEntry?) {
        try firstFree(entry) { name throws(DataProtectionError) in
            let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
            // For its owner alone: what will be in it is not for everybody who may list the directory.
            let descriptor = try retrying(entry.path, "open") {
                name.name.withPlatformString { openat(name.directory.descriptor, $0, flags, 0o600) }
            }
            return (LowerFile(path: entry.path, descriptor: descriptor), name)
        }
    }

    /// Tries one name after the other; one that a dead process left is taken away first.
    private static func firstFree<R>(
        _ entry: DirectoryEntry, _ make: (DirectoryEntry) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        var number = 0
        while true {
            let name = entry.beside(unfinished: "\(number)")
            do throws(DataProtectionError) { return try make(name) } catch {
                guard error.errno == .fileExists, number < 1000 else { throw error }
            }
            if try removeAbandoned(name) != .gone { number += 1 }
        }
    }

    /// What has a name like a temporary one.
    package enum Leftover {
        /// A dead process's, and taken away.
        case gone
        /// In the hands of a living process.
        case inUse
        /// Not what was to have that name: nobody's but its owner's.
        case foreign
    }

    /// Takes a dead process's name away, under the lock that its file would hold if it were alive.
    package static func removeAbandoned(_ entry: DirectoryEntry) throws(DataProtectionError) -> Leftover {
        guard let marks = entry.unfinishedMarks, let status = try entry.directory.status(of: entry.name),
            status.st_mode & S_IFMT == S_IFREG, marks.count == 1 || marks.contains(UInt64(status.st_ino))
        else { return .foreign }
        let other = try entry.directory.file(entry.name, flags: O_RDONLY, path: entry.path)
        defer { withExtendedLifetime(other) {} }
        guard flock(other.descriptor, LOCK_EX | LOCK_NB) == 0 else { return .inUse }
        guard try entry.directory.status(of: entry.name)?.st_ino == status.st_ino else { return .gone }
        try entry.directory.remove(entry.name)
        return .gone
    }
}
