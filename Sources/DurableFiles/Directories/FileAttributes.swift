import Glibc
import SystemPackage

/// What a file carries beside its bytes: owner, mode, times, extended attributes and with them ACLs.
package enum FileAttributes {
    /// Copies mode, times, extended attributes, ACL and, unless `keepingOwner` is false, the owner.
    ///
    /// - Parameter keepingOwner: false: the copy belongs to the caller, and never runs as another user. If the source is another user's file, the
    ///   copy also gets no ACL and no permissions for group and others, because the other user chose them. Directories keep theirs.
    package static func copy(
        from source: LowerFile, to target: LowerFile, keepingOwner: Bool = true
    ) throws(DataProtectionError) {
        let status = try source.status()
        let own = try target.status()
        let isDirectory = status.st_mode & S_IFMT == S_IFDIR
        // By the caller, not by the copy: a file system may give all files to one user.
        let isOthers = !keepingOwner && !isDirectory && status.st_uid != geteuid()
        if keepingOwner, own.st_uid != status.st_uid || own.st_gid != status.st_gid {
            _ = try retrying(target.path, "fchown") { fchown(target.descriptor, status.st_uid, status.st_gid) }
        }
        // The mode comes last: a read-only file takes no attributes from an ordinary user.
        try ExtendedAttributes.copy(from: source, to: target, withoutACL: isOthers) { name in
            name.hasPrefix("user.") || name == ExtendedAttributes.accessACL
        }
        // Directories also keep the setgid and sticky bits: they say what may be done in them.
        let ofCopies: mode_t = isDirectory ? 0o3777 : isOthers ? 0o700 : 0o777
        let mode = status.st_mode & (keepingOwner ? 0o7777 : ofCopies)
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, mode) }
        var times = [status.st_atim, status.st_mtim]
        _ = try retrying(target.path, "futimens") { futimens(target.descriptor, &times) }
    }

    /// Gives a file that replaces another one its owner, if that is allowed, and then its mode and ACL.
    ///
    /// If the owner changes, the file gets no ACL and no permissions for group and others: the old owner chose them, and `unprotect` trusts the
    /// owner's choice.
    package static func inherit(from source: LowerFile, to target: LowerFile) throws(DataProtectionError) {
        let status = try source.status()
        _ = fchown(target.descriptor, status.st_uid, status.st_gid)
        let isOwners = try target.status().st_uid == status.st_uid
        try ExtendedAttributes.copy(from: source, to: target, withoutACL: !isOwners) {
            $0 == ExtendedAttributes.accessACL
        }
        let mode = status.st_mode & (isOwners ? 0o7777 : 0o700)
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, mode) }
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
