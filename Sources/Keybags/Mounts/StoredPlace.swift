import DurableFiles
import Glibc
import Synchronization
import SystemPackage

/// Where the stored file is that a mount shows as plaintext: what works on protected files works on that one, wherever somebody names it.
package enum StoredPlace {
    private struct Known {
        /// The directories of mounts that were asked for, by the source of the mount, which is random: a device number is soon another mount's.
        /// They stay open as long as the process.
        var directories: [String: (directory: LowerDirectory, isOver: Bool)] = [:]
        /// What people call a path that begins at one of them.
        var names: [FilePath: FilePath] = [:]
    }
    private static let known = Mutex(Known())

    /// Where the file of a path is stored; the path itself if it is in no mount. Links are followed, and the file need not exist. In a mount the
    /// result begins at an open directory: see ``SystemPackage/FilePath/isBelowDescriptor``.
    ///
    /// - Parameter followsLast: false: if the last component is a symbolic link, the result names the link, for an operation that replaces or
    ///   refuses links.
    /// - Throws: `mountUnanswered`.
    package static func of(
        _ path: FilePath, followsLast: Bool = true
    ) throws(DataProtectionError) -> FilePath {
        if path.isBelowDescriptor { return path }
        if try MountTable.own().isEmpty { return path }
        // Ask the mount's server first: if it is stopped, open(2) would block for ever. A link into the mount is not noticed here.
        if let absolute = try? path.absolute(), let mount = try MountTable.seen().mount(of: absolute), mount.isOwn {
            _ = try directory(below: mount)
        }
        var (place, name): (FilePath, FilePath.Component?) = (path, nil)
        var found = !followsLast && isLink(path) ? nil : open(place)
        if found == nil, let last = path.lastComponent, last.kind == .regular {
            (place, name) = (path.directory, last)
            found = open(place)
        }
        guard let found, let mount = MountTable.mount(ofDescriptor: found.descriptor), mount.isOwn else { return path }
        var stored = try self.stored(try found.place(), in: mount)
        if let name { stored.append(name) }
        if stored != path { known.withLock { $0.names[stored] = path } }
        return stored
    }

    /// Asks the server of the mount that is at a name, if one is: a stopped server would block every look at the name for ever.
    ///
    /// - Parameter mounts: of ``MountTable/own()``.
    /// - Throws: `mountUnanswered`.
    package static func requireAnswer(
        at name: FilePath.Component, in directory: LowerDirectory, of mounts: [MountTable.Mount]
    ) throws(DataProtectionError) {
        let number = directory.mount(of: name)
        guard let mount = mounts.last(where: { $0.id == number }) else { return }
        _ = try self.directory(below: mount)
    }

    private static func isLink(_ path: FilePath) -> Bool {
        var status = stat()
        return path.withPlatformString { lstat($0, &status) } == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    private static func open(_ path: FilePath) -> LowerFile? { try? LowerFile(path, flags: LowerFile.pathOnly) }

    private static func stored(
        _ place: FilePath, in mount: MountTable.Mount
    ) throws(DataProtectionError) -> FilePath {
        let root = try directory(below: mount).directory
        return root.path.pushing(rest(of: place, in: mount))
    }

    /// The path from the root of the mount's file system.
    private static func rest(of place: FilePath, in mount: MountTable.Mount) -> FilePath {
        var (shown, rest) = (mount.root, place)
        _ = rest.removePrefix(mount.point)
        _ = shown.removePrefix("/")
        return shown.pushing(rest)
    }

    private static func directory(
        below mount: MountTable.Mount
    ) throws(DataProtectionError) -> (directory: LowerDirectory, isOver: Bool) {
        if let found = known.withLock({ $0.directories[mount.source] }) { return found }
        let asked = try DirectoryBelow.ask(mount)
        return known.withLock { known in
            if let found = known.directories[mount.source] { return found }
            known.directories[mount.source] = asked
            known.names[asked.directory.path] = mount.point
            return asked
        }
    }

    /// What people call a path that ``of(_:)`` has given, or one below it; any other path as it is.
    package static func shown(_ path: FilePath) -> FilePath {
        guard path.isBelowDescriptor else { return path }
        let names = known.withLock { $0.names }
        var (stored, rest) = (path, FilePath())
        while let name = stored.lastComponent {
            if let shown = names[stored] {
                if rest.isEmpty { return shown }
                return shown == "." ? rest : shown.pushing(rest)
            }
            rest = FilePath(root: nil, [name]).pushing(rest)
            stored.removeLastComponent()
        }
        return path
    }

    /// The directory with the stored files of a mount that is over the directory itself; nil if there is no such mount.
    ///
    /// - Parameter device: the device of what is mounted there.
    /// - Throws: `mountUnanswered`.
    package static func directory(
        mountedOver entry: DirectoryEntry, device: dev_t
    ) throws(DataProtectionError) -> LowerDirectory? {
        let name = MountTable.device(UInt64(device))
        guard let mount = try MountTable.own().last(where: { $0.device == name }) else { return nil }
        let (directory, isOver) = try self.directory(below: mount)
        guard isOver else { return nil }
        known.withLock { $0.names[directory.path] = entry.path }
        return directory
    }

    /// The directory that a mount of this user shows.
    ///
    /// - Throws: `mountUnanswered`.
    package static func source(
        of mount: MountTable.Mount
    ) throws(DataProtectionError) -> (path: FilePath, isOver: Bool) {
        let (directory, isOver) = try DirectoryBelow.ask(mount)
        return (try directory.path.resolvedName(), isOver)
    }

    /// Calls `body` with the place where the file of a path is stored that was written down, absolute and without links. No file system is asked
    /// for the place: a server that hangs holds nobody up. Nothing stays open.
    ///
    /// - Throws: `mountUnanswered`, and what `body` throws.
    package static func find<R>(
        _ path: FilePath, _ body: (FilePath) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        guard let mount = try MountTable.seen().mount(of: path), mount.isOwn else { return try body(path) }
        let directory = try DirectoryBelow.ask(mount).directory
        defer { withExtendedLifetime(directory) {} }
        return try body(directory.path.pushing(rest(of: path, in: mount)))
    }
}

extension MountTable {
    /// The mounts of protectfs that this user has.
    package static func own() throws(DataProtectionError) -> [Mount] { try seen().mounts.filter(\.isOwn) }
}

extension MountTable.Mount {
    /// Whether it is one of protectfs that this user has.
    fileprivate var isOwn: Bool { type == MountNote.type && user == geteuid() }
}
