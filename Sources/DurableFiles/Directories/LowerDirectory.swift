import CDirectoryEntries
import Glibc
import SystemPackage

/// An open directory: everything is done through its descriptor, wherever its path leads by then.
///
/// Names in it are single components and are never followed if they are links. So an attacker who swaps directories and links on the way cannot
/// redirect a read or a write.
package final class LowerDirectory: Sendable {
    /// For messages; and where it was found.
    package let path: FilePath
    package let descriptor: Int32

    /// Opens the directory that the path leads to, by links too.
    package init(_ path: FilePath) throws(DataProtectionError) {
        descriptor = try retrying(path, "open") {
            path.withPlatformString { Glibc.open($0, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        }
        self.path = path
    }

    /// Takes over a descriptor.
    package init(_ path: FilePath, descriptor: Int32) { (self.path, self.descriptor) = (path, descriptor) }

    deinit { close(descriptor) }

    // MARK: opening

    /// Opens the directory of that name.
    ///
    /// - Parameter isStaying: whether it must be on the same file system.
    /// - Throws: `system` with ELOOP or ENOTDIR for a link, EXDEV for another file system.
    package func directory(
        _ name: FilePath.Component, staying isStaying: Bool = true
    ) throws(DataProtectionError) -> LowerDirectory {
        let path = path.entry(name)
        let descriptor = try open(name, path, O_RDONLY | O_DIRECTORY, staying: isStaying)
        return LowerDirectory(path, descriptor: descriptor)
    }

    /// Opens the file of that name; O_NONBLOCK, so that a FIFO does not make us wait.
    ///
    /// - Throws: `notRegularFile`, for a link too; nothing but a regular file stays open.
    package func file(_ name: FilePath.Component, flags: Int32, path: FilePath) throws(DataProtectionError) -> LowerFile
    {
        do throws(DataProtectionError) {
            let descriptor = try open(name, path, flags | O_NOFOLLOW | O_NONBLOCK, staying: false)
            let file = LowerFile(path: path, descriptor: descriptor)
            try file.requireRegular()
            return file
        } catch {
            // open(2) says ELOOP for a link, ENXIO for a socket, EISDIR for a directory that is to be written.
            let others: [Errno] = [.tooManySymbolicLinkLevels, .noSuchAddressOrDevice, .isDirectory]
            throw others.contains(error.errno) ? .notRegularFile(path) : error
        }
    }

    /// openat2(2), or openat(2) where the kernel is older than 5.6 or a sandbox does not know it: for one name, not followed,
    /// that is as safe.
    private func open(
        _ name: FilePath.Component, _ path: FilePath, _ flags: Int32, staying: Bool
    ) throws(DataProtectionError) -> Int32 {
        do throws(DataProtectionError) {
            return try retrying(path, "openat2") {
                name.withPlatformString { protectfs_open_beneath(descriptor, $0, flags, staying ? 1 : 0) }
            }
        } catch {
            guard error.errno == .noFunction || error.errno == .notPermitted else { throw error }
        }
        let own = try status().st_dev
        let found = try retrying(path, "openat") {
            name.withPlatformString { openat(descriptor, $0, flags | O_NOFOLLOW | O_CLOEXEC) }
        }
        var there = stat()
        guard !staying || fstat(found, &there) == 0 && there.st_dev == own else {
            close(found)
            throw .system(path, operation: "openat", .improperLink)
        }
        return found
    }

    /// Whether these names, one below the other, still lead from here to `directory`.
    package func leads(by names: [FilePath.Component], to directory: LowerDirectory) throws(DataProtectionError) -> Bool
    {
        if names.isEmpty { return true }
        var reached = self
        for path in Self.paths(of: names) {
            let found = path.withPlatformString {
                protectfs_open_beneath(reached.descriptor, $0, O_RDONLY | O_DIRECTORY, 1)
            }
            // A kernel that cannot be asked has opened each of them without following links.
            guard found >= 0 else { return errno == ENOSYS || errno == EPERM }
            reached = LowerDirectory(path, descriptor: found)
        }
        let (there, meant) = (try reached.status(), try directory.status())
        return there.st_ino == meant.st_ino && there.st_dev == meant.st_dev
    }

    /// Paths that lead by these names one after the other: a tree can be deeper than the PATH_MAX bytes of a path.
    private static func paths(of names: [FilePath.Component]) -> [FilePath] {
        names.reduce(into: []) { paths, name in
            let next = FilePath(root: nil, [name])
            if let last = paths.last, last.length + 1 + next.length < Int(PATH_MAX) {
                paths[paths.count - 1].append(name)
            } else {
                paths.append(next)
            }
        }
    }

    /// Leads to this directory, whatever its path leads to. For calls that take no descriptor.
    package var descriptorPath: FilePath { FilePath("/proc/self/fd/\(descriptor)") }

    // MARK: looking

    /// fstat(2).
    package func status() throws(DataProtectionError) -> stat {
        var status = stat()
        _ = try retrying(path, "fstat") { fstat(descriptor, &status) }
        return status
    }

    /// What has that name, not following it: fstatat(2). Nil if there is nothing.
    package func status(of name: FilePath.Component) throws(DataProtectionError) -> stat? {
        var status = stat()
        do throws(DataProtectionError) {
            _ = try retrying(path.entry(name), "fstatat") {
                name.withPlatformString { fstatat(descriptor, $0, &status, AT_SYMLINK_NOFOLLOW) }
            }
            return status
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return nil
        }
    }

    /// All names but `.` and `..`, in the order of their bytes.
    package func names() throws(DataProtectionError) -> [FilePath.Component] {
        try DirectoryListing.components(reading: try stream(), of: path)
    }

    /// Some of the names, in no order, until `body` says false or there are no more.
    ///
    /// - Returns: whether there are no more.
    package func forEachName(_ body: (FilePath.Component) -> Bool) throws(DataProtectionError) -> Bool {
        try DirectoryListing.forEach(reading: try stream(), of: path, body)
    }

    private func stream() throws(DataProtectionError) -> OpaquePointer {
        let own = try retrying(path, "openat") { openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        guard let stream = fdopendir(own) else {
            let error = Errno(rawValue: errno)
            close(own)
            throw .system(path, operation: "fdopendir", error)
        }
        return stream
    }

    /// Whether no name in it can be taken away, or replaced.
    package var isFixed: Bool { protectfs_is_fixed(descriptor) != 0 }

    // MARK: changing

    /// unlinkat(2); a name that is not there is fine.
    package func remove(_ name: FilePath.Component) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try unlink(name, isDirectory: false)
        } catch .system(_, _, .noSuchFileOrDirectory) {}
    }

    /// renameat(2).
    package func rename(_ old: FilePath.Component, to new: FilePath.Component) throws(DataProtectionError) {
        try move(old, to: new, in: self, replacing: true)
    }

    /// Each name leads to what the other one led to, from one moment to the next. The C call is `renameat2`.
    ///
    /// - Returns: false where the file system cannot do that.
    package func exchange(_ one: FilePath.Component, _ other: FilePath.Component) throws(DataProtectionError) -> Bool {
        do throws(DataProtectionError) {
            try exchange(one, with: other, in: self)
            return true
        } catch {
            guard [.invalidArgument, .noFunction, .notSupported].contains(error.errno) else { throw error }
            return false
        }
    }

    /// Gives an open file a name, which does not last through a power cut yet. The C call is `linkat`.
    package func link(_ file: LowerFile, as name: FilePath.Component) throws(DataProtectionError) {
        _ = try retrying(path.entry(name), "linkat") {
            file.descriptorPath.withPlatformString { own in
                name.withPlatformString { linkat(AT_FDCWD, own, descriptor, $0, AT_SYMLINK_FOLLOW) }
            }
        }
    }

    /// fsync(2), which makes names last.
    package func flush() throws(DataProtectionError) {
        #if PROTECTFS_CONTROLS
            if Omission.current == .directory { return }
        #endif
        _ = try retrying(path, "fsync") { fsync(descriptor) }
    }
}

/// A name in an open directory.
package struct DirectoryEntry: Sendable {
    package let directory: LowerDirectory
    package let name: FilePath.Component
    /// For messages.
    package let path: FilePath

    package init(_ name: FilePath.Component, in directory: LowerDirectory) {
        (self.directory, self.name) = (directory, name)
        path = directory.path.entry(name)
    }

    /// - Throws: `system` if the directory cannot be opened, or the path is empty or that of a root.
    package init(_ path: FilePath) throws(DataProtectionError) {
        guard let name = path.lastComponent else {
            throw .system(path, operation: "open", path.isEmpty ? .noSuchFileOrDirectory : .isDirectory)
        }
        directory = try LowerDirectory(path.directory)
        (self.name, self.path) = (name, path)
    }

    /// Another name in the same directory, for a moment: FORMAT.md §2.6.
    package func beside(unfinished mark: String) -> DirectoryEntry {
        DirectoryEntry(name.unfinished(mark), in: directory)
    }

    /// Whether this is a name of the open file itself, not of a link to it.
    package func leads(to file: LowerFile) throws(DataProtectionError) -> Bool {
        guard let there = try directory.status(of: name) else { return false }
        return there.isSameItem(as: try file.status())
    }

    /// The numbers at the end of a name that ``beside(unfinished:)`` gives; nil for any other name.
    package var unfinishedMarks: [UInt64]? {
        let bytes = name.bytes
        let word = Array(".protectfs-unfinished-".utf8)
        guard bytes.first == UInt8(ascii: "."), let end = bytes.lastIndex(of: UInt8(ascii: ".")), end > 0,
            bytes[end...].starts(with: word)
        else { return nil }
        let numbers = bytes[(end + word.count)...].split(
            separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        let marks = numbers.compactMap { UInt64(String(decoding: $0, as: UTF8.self)) }
        return marks.count == numbers.count && marks.count <= 2 ? marks : nil
    }
}

extension FilePath {
    /// A name in this directory; in the working directory, named `.`, without the dot.
    package func entry(_ name: Component) -> FilePath {
        self == "." ? FilePath(root: nil, [name]) : appending(name)
    }
}

extension LowerFile {
    /// Whether its name cannot be taken away, or be that of another file.
    package var isFixed: Bool { protectfs_is_fixed(descriptor) != 0 }
}
