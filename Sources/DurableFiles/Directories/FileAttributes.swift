import Glibc
import SystemPackage

/// What a file carries beside its bytes: owner, mode, times, extended attributes and with them ACLs.
package enum FileAttributes {
    /// Copies all of them, so that a converted file differs only in its bytes.
    ///
    /// - Parameter keepingOwner: false: the copy belongs to the user who makes it, so it never runs as another user.
    package static func copy(
        from source: LowerFile, to target: LowerFile, keepingOwner: Bool = true
    ) throws(DataProtectionError) {
        let status = try source.status()
        let own = try target.status()
        if keepingOwner, own.st_uid != status.st_uid || own.st_gid != status.st_gid {
            _ = try retrying(target.path, "fchown") { fchown(target.descriptor, status.st_uid, status.st_gid) }
        }
        // The mode comes last: a read-only file takes no attributes from an ordinary user.
        try ExtendedAttributes.copy(from: source, to: target) { name in
            name.hasPrefix("user.") || name == ExtendedAttributes.accessACL
        }
        // Directories also keep the setgid and sticky bits: they say what may be done in them.
        let ofCopies: mode_t = status.st_mode & S_IFMT == S_IFDIR ? 0o3777 : 0o777
        let mode = status.st_mode & (keepingOwner ? 0o7777 : ofCopies)
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, mode) }
        var times = [status.st_atim, status.st_mtim]
        _ = try retrying(target.path, "futimens") { futimens(target.descriptor, &times) }
    }

    /// What a file that replaces another one takes over: mode and ACL always, the owner where it may.
    package static func inherit(from source: LowerFile, to target: LowerFile) throws(DataProtectionError) {
        let status = try source.status()
        _ = fchown(target.descriptor, status.st_uid, status.st_gid)
        try ExtendedAttributes.copy(from: source, to: target) { $0 == ExtendedAttributes.accessACL }
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, status.st_mode & 0o7777) }
    }
}

extension LowerFile {
    /// Opens what must be a regular file; O_NONBLOCK, so that a FIFO does not make us wait.
    ///
    /// - Throws: `notRegularFile`; open(2) itself says EISDIR for a directory that is to be written, ENXIO for a socket.
    package convenience init(regular path: FilePath, flags: Int32) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try self.init(path, flags: flags | O_NONBLOCK)
        } catch {
            guard error.errno == .isDirectory || error.errno == .noSuchAddressOrDevice else { throw error }
            throw .notRegularFile(path)
        }
        try requireRegular()
    }

    /// - Throws: `notRegularFile`.
    package func requireRegular() throws(DataProtectionError) {
        guard try status().st_mode & S_IFMT == S_IFREG else { throw .notRegularFile(path) }
    }
}
