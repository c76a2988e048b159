import Glibc
import SystemPackage

/// A file that has no name yet (O_TMPFILE, open(2)): when its process dies, it was never there.
struct UnnamedFile {
    /// Where it will be.
    let path: FilePath
    let file: LowerFile

    /// O_TMPFILE of fcntl.h, which hides it behind _GNU_SOURCE: 020000000 | O_DIRECTORY.
    private static let temporary: Int32 = 0o20_000_000 | O_DIRECTORY

    /// Makes a file in the directory of `path`, 0666 less the umask, as open(2) would make it under its name.
    init(_ path: FilePath) throws(DataProtectionError) {
        self.path = path
        let directory = path.directory
        let descriptor = try retrying(path, "open") {
            directory.withPlatformString { open($0, O_RDWR | O_CLOEXEC | Self.temporary, 0o666) }
        }
        file = LowerFile(path: path, descriptor: descriptor)
        // Held until the file has its name: a name like its temporary one without this lock is a dead process's.
        _ = try retrying(path, "flock") { flock(descriptor, LOCK_EX | LOCK_NB) }
    }

    /// Gives the file, which is flushed, its name, and makes that last.
    ///
    /// - Throws: `exists` if there is something under that name and `replacing` is false.
    func publish(replacing: Bool) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try link(to: path)
        } catch {
            guard error.errno == .fileExists else { throw error }
            guard replacing else { throw .exists(path) }
            let temporary = try linkTemporary()
            do throws(DataProtectionError) { try AtomicReplace.rename(temporary, to: path) } catch {
                try? AtomicReplace.remove(temporary)
                throw error
            }
        }
        // The file may stay open, and others may want to lock it.
        _ = try retrying(path, "flock") { flock(file.descriptor, LOCK_UN) }
        try AtomicReplace.flushDirectory(path.directory)
    }

    /// Gives the file a name, which does not last through a power cut yet. The C call is linkat(2).
    func link(to name: FilePath) throws(DataProtectionError) {
        let own = "/proc/self/fd/\(file.descriptor)"
        _ = try retrying(name, "linkat") {
            name.withPlatformString { linkat(AT_FDCWD, own, AT_FDCWD, $0, AT_SYMLINK_FOLLOW) }
        }
    }

    /// A name for a moment, for rename(2) to replace with. One that a dead process left is taken away first.
    private func linkTemporary() throws(DataProtectionError) -> FilePath {
        var number = 0
        while true {
            let temporary = path.beside(unfinished: number)
            do throws(DataProtectionError) {
                try link(to: temporary)
                return temporary
            } catch {
                guard error.errno == .fileExists, number < 1000 else { throw error }
            }
            if try !removeAbandoned(temporary) { number += 1 }
        }
    }

    /// Takes a dead process's name away, under the lock that its file would hold if it were alive.
    private func removeAbandoned(_ path: FilePath) throws(DataProtectionError) -> Bool {
        guard let other = try? LowerFile(path, flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
            (try? other.requireRegular()) != nil,  // a directory is a copy that is being made, or was
            flock(other.descriptor, LOCK_EX | LOCK_NB) == 0
        else { return false }
        var named = stat()
        guard path.withPlatformString({ lstat($0, &named) }) == 0, named.st_ino == (try other.status().st_ino) else {
            return true  // it has just gone
        }
        try AtomicReplace.remove(path)
        return withExtendedLifetime(other) { true }
    }
}
