import Glibc
import SystemPackage

/// What a copy of a tree does in directories, by their descriptors and single names: no link leads anywhere else.
extension LowerDirectory {
    /// Opens the directory of that name, and makes it, 0700, if there is nothing.
    ///
    /// Somebody who may rename things in this directory could have given the name to another directory meanwhile.
    /// - Throws: `exists` if there is something else, a link or such a directory included.
    package func subdirectory(_ name: FilePath.Component) throws(DataProtectionError) -> (LowerDirectory, isNew: Bool) {
        var isNew = true
        do throws(DataProtectionError) {
            try makeDirectory(name, mode: 0o700)
        } catch {
            guard error.errno == .fileExists else { throw error }
            isNew = false
        }
        do throws(DataProtectionError) {
            let opened = try directory(name, staying: false)
            guard isNew, try !opened.isAsMade(in: self) else { return (opened, isNew) }
            try? unlink(name, isDirectory: true)  // an empty one only
            throw .exists(path.entry(name))
        } catch {
            let others: [Errno] = [.tooManySymbolicLinkLevels, .notDirectory]
            throw others.contains(error.errno) ? .exists(path.entry(name)) : error
        }
    }

    /// Whether it can be one that was just made in `parent`: nobody else may rename there, or it is empty, and closed to others. Some file systems give
    /// one owner and one mode to all that they have.
    package func isAsMade(in parent: LowerDirectory) throws(DataProtectionError) -> Bool {
        let (own, outer) = (try status(), try parent.status())
        if outer.st_mode & 0o022 == 0 || outer.st_mode & S_ISVTX != 0 { return true }
        let isLikeParent = own.st_uid == outer.st_uid && own.st_mode & 0o777 == outer.st_mode & 0o777
        guard isLikeParent || own.st_uid == geteuid() && own.st_mode & 0o022 == 0 else { return false }
        return try names().isEmpty
    }

    /// What the link of that name says, as bytes. The C call is `readlinkat`.
    package func link(_ name: FilePath.Component) throws(DataProtectionError) -> [CChar] {
        var text = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = try retrying(path.entry(name), "readlink") {
            name.withPlatformString { readlinkat(descriptor, $0, &text, text.count - 1) }
        }
        return Array(text[..<count]) + [0]
    }

    /// Makes a link, wholly or not at all. The C calls are `symlinkat` and `renameat`.
    ///
    /// - Throws: `exists` if there is something and `replacing` is false.
    package func makeLink(
        _ name: FilePath.Component, to text: [CChar], replacing: Bool
    ) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try makeLink(name, to: text)
        } catch {
            guard error.errno == .fileExists else { throw error }
            guard replacing else { throw .exists(path.entry(name)) }
            let temporary = DirectoryEntry(name, in: self).beside(unfinished: "0").name
            if let status = try status(of: temporary), status.st_mode & S_IFMT == S_IFLNK { try remove(temporary) }
            try makeLink(temporary, to: text)
            try rename(temporary, to: name)
        }
    }

    /// Takes away what has that name, with all that is in it, however deep that is.
    package func removeTree(_ name: FilePath.Component) throws(DataProtectionError) {
        guard let inner = try removeUnlessDirectory(name) else { return }
        try inner.removeContents()
        try unlink(name, isDirectory: true)
    }

    /// Removes all that is in this directory. Links are removed, and never followed.
    ///
    /// - Throws: the first error, after everything else has been tried.
    package func removeContents() throws(DataProtectionError) {
        var failure: DataProtectionError?
        var descent = Descent(self)
        var waiting = [try namesToRemove()]
        while let last = waiting.indices.last {
            guard let name = waiting[last].popLast() else {
                waiting.removeLast()
                guard let done = descent.name else { break }
                do throws(DataProtectionError) { try descent.leave() } catch { throw failure ?? error }
                do throws(DataProtectionError) { try descent.directory.unlink(done, isDirectory: true) } catch {
                    failure = failure ?? error
                }
                continue
            }
            do throws(DataProtectionError) {
                guard let inner = try descent.directory.removeUnlessDirectory(name) else { continue }
                let names = try inner.namesToRemove()
                try descent.enter(name, inner)
                waiting.append(names)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// Only with this mode can what is in it be removed.
    private func namesToRemove() throws(DataProtectionError) -> [FilePath.Component] {
        try setMode(0o700)
        return try names()
    }

    /// - Returns: the directory, if that is what has the name; nothing was removed then.
    private func removeUnlessDirectory(_ name: FilePath.Component) throws(DataProtectionError) -> LowerDirectory? {
        guard let status = try status(of: name) else { return nil }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            try remove(name)
            return nil
        }
        do throws(DataProtectionError) { return try directory(name) } catch .system(_, _, .permissionDenied) {
            // Its owner may open it only with another mode.
            _ = try retrying(path.entry(name), "fchmodat") {
                name.withPlatformString { fchmodat(descriptor, $0, 0o700, AT_SYMLINK_NOFOLLOW) }
            }
            return try directory(name)
        }
    }

    /// Takes away what a killed copy left under a temporary name. Nobody else writes here meanwhile.
    package func removeUnfinished() throws(DataProtectionError) {
        for name in try names() where isUnfinished(name) { try remove(name) }
    }

    /// Whether it is a name for a moment, of a file or a link. FORMAT.md §2.6.
    package func isUnfinished(_ name: FilePath.Component) -> Bool {
        let entry = DirectoryEntry(name, in: self)
        guard entry.unfinishedMarks != nil, let status = try? status(of: name) else { return false }
        return status.st_mode & S_IFMT != S_IFDIR
    }

    /// fchmod(2).
    package func setMode(_ mode: mode_t) throws(DataProtectionError) {
        _ = try retrying(path, "fchmod") { fchmod(descriptor, mode) }
    }

    /// The same directory, whose path is that of its descriptor: names below it are found in it, also when something is mounted over it.
    package func namedByDescriptor() throws(DataProtectionError) -> LowerDirectory {
        let own = try retrying(path, "fcntl") { fcntl(descriptor, F_DUPFD_CLOEXEC, 0) }
        return LowerDirectory(FilePath("/proc/self/fd/\(own)"), descriptor: own)
    }

    /// The same directory as a file, for what directories and files have in common: mode, times, attributes.
    package func asFile() throws(DataProtectionError) -> LowerFile {
        let own = try retrying(path, "openat") { openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        return LowerFile(path: path, descriptor: own)
    }
}

extension stat {
    /// Whether both are the same item of the same file system.
    package func isSameItem(as other: stat) -> Bool { st_dev == other.st_dev && st_ino == other.st_ino }
}
