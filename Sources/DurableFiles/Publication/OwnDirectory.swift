import CExtendedAttributes
import Glibc
import SystemPackage

/// Directories and files that only their owner may touch: 0700 and 0600.
package enum OwnDirectory {
    /// Makes the directory and its missing parents, 0700.
    package static func make(_ path: FilePath) throws(DataProtectionError) {
        if exists(path) { return }
        let parent = path.removingLastComponent()
        if !parent.isEmpty, parent != path { try make(parent) }
        try makeLast(path)
    }

    /// Makes the directory in one that is there, 0700: where a keybag was erased meanwhile, nothing of it may come back.
    package static func makeLast(_ path: FilePath) throws(DataProtectionError) {
        if exists(path) { return }
        let parent = path.removingLastComponent()
        do throws(DataProtectionError) {
            _ = try retrying(path, "mkdir") { path.withPlatformString { mkdir($0, 0o700) } }
            try AtomicReplace.flushDirectory(parent.isEmpty ? "." : parent)
        } catch .system(_, _, .fileExists) {}
    }

    /// Whether anything is there.
    package static func exists(_ path: FilePath) -> Bool { path.withPlatformString { access($0, F_OK) } == 0 }

    /// The uid that owns what is there; nil if nothing is, or it cannot be seen.
    package static func owner(of path: FilePath) -> uid_t? {
        var status = stat()
        return path.withPlatformString { stat($0, &status) } == 0 ? status.st_uid : nil
    }

    /// Whether it is a directory that belongs to this user, and that nobody else may write to.
    package static func isOnlyOwners(_ path: FilePath) -> Bool {
        var status = stat()
        guard path.withPlatformString({ stat($0, &status) }) == 0 else { return false }
        return status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid() && status.st_mode & 0o022 == 0
    }

    /// Refuses to go on where class keys would go into the keyring of another user than the one whose files are used: the kernel's
    /// user keyring is the real user's (user-keyring(7)), permissions are the effective user's.
    ///
    /// - Throws: `keybagUnsafe`.
    package static func requireOneUser(for keybag: FilePath) throws(DataProtectionError) {
        let (real, effective) = (getuid(), geteuid())
        guard real != effective else { return }
        throw .keybagUnsafe(
            keybag,
            reason: "this process runs as uid \(real) with the rights of uid \(effective): its class keys would be in "
                + "a keyring in which uid \(effective) does not lock")
    }

    /// Refuses a directory in which, or on the way to which, another user could put something else in the place of what is made there.
    ///
    /// The directory and all above it must belong to this user or root. Where others may write, the sticky bit keeps them from renaming. The
    /// uid that stands for users whom this user namespace does not know is root's, for example.
    /// A directory that is not there yet is going to be made in the nearest one above it that is.
    /// - Throws: `keybagUnsafe`, `system`.
    package static func requireUnswappable(_ path: FilePath) throws(DataProtectionError) {
        var existing = try path.absolute()
        while !exists(existing), !existing.components.isEmpty { existing.removeLastComponent() }
        // The path as it is written is used later: a link on the way must not be exchanged either.
        var prefix = existing
        while !prefix.components.isEmpty {
            var status = stat()
            _ = try retrying(prefix, "lstat") { prefix.withPlatformString { lstat($0, &status) } }
            let directory = prefix.removingLastComponent()
            if status.st_mode & S_IFMT == S_IFLNK { try requireUnswappable(directory) }
            prefix = directory
        }
        var current = try existing.resolved()
        while true {
            var status = stat()
            _ = try retrying(current, "lstat") { current.withPlatformString { lstat($0, &status) } }
            guard [0, geteuid()].contains(status.st_uid) || isUnmapped(status.st_uid) else {
                throw .keybagUnsafe(
                    current, reason: "it belongs to uid \(status.st_uid), who could exchange what is in it")
            }
            let othersMayWrite = status.st_mode & 0o002 != 0 || isWritableByGroup(current, status)
            guard !othersMayWrite || status.st_mode & S_ISVTX != 0 else {
                throw .keybagUnsafe(current, reason: "others may write to it (mode \(octal(status.st_mode)))")
            }
            if current.components.isEmpty { return }
            current.removeLastComponent()
        }
    }

    /// Whether the uid stands for users whom this user namespace does not know: `/proc/sys/kernel/overflowuid`, 65534 everywhere. Where it knows all,
    /// it is that of a user. user_namespaces(7).
    private static func isUnmapped(_ uid: uid_t) -> Bool {
        guard uid == 65534, let map = try? LowerFile("/proc/self/uid_map", flags: O_RDONLY).text() else { return false }
        return map.split(whereSeparator: \.isWhitespace).last != "4294967295"
    }

    /// Whether a group other than the user's own may write to it, or whom an access control list names: its mask is in the place of the group's mode.
    private static func isWritableByGroup(_ path: FilePath, _ status: stat) -> Bool {
        guard status.st_mode & 0o020 != 0 else { return false }
        let hasList = path.withPlatformString { lgetxattr($0, "system.posix_acl_access", nil, 0) } > 0
        return hasList || !PrivateGroup.isPrivate(status.st_gid, of: geteuid())
    }

    /// Refuses a directory that belongs to others or that others may write to. If others may only read it, makes it 0700, with a warning.
    ///
    /// The path may be a link: the user names the directory.
    /// - Throws: `keybagUnsafe`, `system`.
    package static func secure(directory path: FilePath, warn: (ProtectionWarning) -> Void) throws(DataProtectionError)
    {
        let status = try Self.status(of: path)
        try requireOwn(path, status)
        narrow(path, status, to: 0o700, opening: O_DIRECTORY, warn: warn)
    }

    /// The same of an open directory, wherever its path leads by now.
    package static func secure(
        _ directory: LowerDirectory, warn: (ProtectionWarning) -> Void
    ) throws(DataProtectionError) {
        let status = try directory.status()
        try requireOwn(directory.path, status)
        // On a read-only medium the mode stays as it is.
        guard status.st_mode & 0o077 != 0, fchmod(directory.descriptor, 0o700) == 0 else { return }
        warn(.modeRepaired(directory.path, from: octal(status.st_mode), to: octal(0o700)))
    }

    /// The same for a file in such a directory, which becomes 0600. Skips a link, which a later open refuses to follow.
    package static func secure(file path: FilePath, warn: (ProtectionWarning) -> Void) throws(DataProtectionError) {
        var status = stat()
        _ = try retrying(path, "lstat") { path.withPlatformString { lstat($0, &status) } }
        guard status.st_mode & S_IFMT != S_IFLNK else { return }
        try requireOwn(path, status)
        guard status.st_mode & S_IFMT == S_IFREG else { return }
        narrow(path, status, to: 0o600, opening: O_NOFOLLOW | O_NONBLOCK, warn: warn)
    }

    /// Refuses what belongs to another user.
    ///
    /// - Throws: `keybagUnsafe`, `system`.
    package static func requireOwner(of path: FilePath) throws(DataProtectionError) {
        try requireOwner(path, try Self.status(of: path))
    }

    /// Refuses a directory that belongs to others or that others may write to.
    ///
    /// - Throws: `keybagUnsafe`, `system`.
    package static func requireOnlyOwners(_ path: FilePath) throws(DataProtectionError) {
        try requireOwn(path, try Self.status(of: path))
    }

    private static func status(of path: FilePath) throws(DataProtectionError) -> stat {
        var status = stat()
        _ = try retrying(path, "stat") { path.withPlatformString { stat($0, &status) } }
        return status
    }

    private static func requireOwner(_ path: FilePath, _ status: stat) throws(DataProtectionError) {
        guard status.st_uid == geteuid() else {
            throw .keybagUnsafe(path, reason: "it belongs to uid \(status.st_uid), not to you (uid \(geteuid()))")
        }
    }

    private static func requireOwn(_ path: FilePath, _ status: stat) throws(DataProtectionError) {
        try requireOwner(path, status)
        guard status.st_mode & 0o022 == 0 else {
            throw .keybagUnsafe(path, reason: "others may write to it (mode \(octal(status.st_mode)))")
        }
    }

    /// By a descriptor of the item that was looked at: something else may have got its name since.
    private static func narrow(
        _ path: FilePath, _ status: stat, to mode: mode_t, opening flags: Int32, warn: (ProtectionWarning) -> Void
    ) {
        guard status.st_mode & 0o077 != 0 else { return }
        // On a read-only medium the mode stays as it is; what others could read then is ciphertext.
        guard let item = try? LowerFile(path, flags: O_RDONLY | flags),
            (try? item.status())?.isSameItem(as: status) == true, fchmod(item.descriptor, mode) == 0
        else { return }
        warn(.modeRepaired(path, from: octal(status.st_mode), to: octal(mode)))
    }

    private static func octal(_ mode: mode_t) -> String { String(mode & 0o7777, radix: 8) }
}
