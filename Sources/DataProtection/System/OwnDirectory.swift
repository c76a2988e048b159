import Glibc
package import SystemPackage

/// Directories and files that only their owner may touch: 0700 and 0600.
package enum OwnDirectory {
    /// Makes the directory and its missing parents, 0700.
    package static func make(_ path: FilePath) throws(DataProtectionError) {
        if exists(path) { return }
        let parent = path.removingLastComponent()
        if !parent.isEmpty, parent != path { try make(parent) }
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
    static func isOnlyOwners(_ path: FilePath) -> Bool {
        var status = stat()
        guard path.withPlatformString({ stat($0, &status) }) == 0 else { return false }
        return status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid() && status.st_mode & 0o022 == 0
    }

    /// The length in bytes; nil if there is no regular file. A link is none.
    static func length(ofFile path: FilePath) -> off_t? {
        var status = stat()
        guard path.withPlatformString({ lstat($0, &status) }) == 0 else { return nil }
        return status.st_mode & S_IFMT == S_IFREG ? status.st_size : nil
    }

    /// Refuses what belongs to others or what others may write; narrows what others may only read, with a warning.
    static func secure(
        _ path: FilePath, mode: mode_t, warn: (ProtectionWarning) -> Void
    ) throws(DataProtectionError) {
        var status = stat()
        _ = try retrying(path, "stat") { path.withPlatformString { stat($0, &status) } }
        guard status.st_uid == geteuid() else {
            throw .keybagUnsafe(path, reason: "it belongs to uid \(status.st_uid), not to you (uid \(geteuid()))")
        }
        guard status.st_mode & 0o022 == 0 else {
            throw .keybagUnsafe(path, reason: "others may write to it (mode \(octal(status.st_mode)))")
        }
        guard status.st_mode & 0o077 != 0 else { return }
        // On a read-only medium the mode stays as it is; what others could read then is ciphertext.
        if path.withPlatformString({ chmod($0, mode) }) == 0 {
            warn(.modeRepaired(path, from: octal(status.st_mode), to: octal(mode)))
        }
    }

    private static func octal(_ mode: mode_t) -> String { String(mode & 0o7777, radix: 8) }
}
