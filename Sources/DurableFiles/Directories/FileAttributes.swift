import Glibc
import SystemPackage

/// What a file carries beside its bytes: owner, group, mode, times, extended attributes and with them ACLs.
package enum FileAttributes {
    /// Copies mode, times, extended attributes, ACL, the group where that is allowed and, unless `keepingOwner` is false, the owner.
    ///
    /// - Parameter keepingOwner: false: the copy belongs to the caller, and never runs as another user. Of a file, mode and ACL are copied only as
    ///   far as ``Permissions`` allows. Directories keep all of theirs.
    package static func copy(
        from source: LowerFile, to target: LowerFile, keepingOwner: Bool = true
    ) throws(DataProtectionError) {
        let status = try source.status()
        let isDirectory = status.st_mode & S_IFMT == S_IFDIR
        let own = try target.status()
        if keepingOwner, own.st_uid != status.st_uid || own.st_gid != status.st_gid {
            _ = try retrying(target.path, "fchown") { fchown(target.descriptor, status.st_uid, status.st_gid) }
        }
        // By the caller, not by the copy: a file system may give all files to one user.
        let isOthers = !keepingOwner && status.st_uid != geteuid()
        if !keepingOwner, !isOthers { _ = fchown(target.descriptor, uid_t.max, status.st_gid) }
        let permissions =
            keepingOwner || isDirectory
            ? Permissions.all : Permissions(ofOwner: !isOthers, group: try target.status().st_gid == status.st_gid)
        // The mode comes last: a read-only file takes no attributes from an ordinary user.
        try ExtendedAttributes.copy(from: source, to: target, withoutACL: permissions != .all) { name in
            name.hasPrefix("user.") || name == ExtendedAttributes.accessACL
        }
        // Directories also keep the setgid and sticky bits: they say what may be done in them.
        let ofCopies: mode_t = isDirectory ? 0o3777 : 0o777
        let mode = status.st_mode & (keepingOwner ? 0o7777 : ofCopies) & permissions.mask
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, mode) }
        var times = [status.st_atim, status.st_mtim]
        _ = try retrying(target.path, "futimens") { futimens(target.descriptor, &times) }
    }

    /// Gives a file that replaces another one its owner and group, if that is allowed, and then its mode and ACL, as far as
    /// ``Permissions`` allows.
    package static func inherit(from source: LowerFile, to target: LowerFile) throws(DataProtectionError) {
        let status = try source.status()
        _ = fchown(target.descriptor, status.st_uid, status.st_gid)
        let now = try target.status()
        let permissions = Permissions(
            ofOwner: now.st_uid == status.st_uid, group: now.st_gid == status.st_gid)
        try ExtendedAttributes.copy(from: source, to: target, withoutACL: permissions != .all) {
            $0 == ExtendedAttributes.accessACL
        }
        let mode = status.st_mode & 0o7777 & permissions.mask
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, mode) }
    }

    /// How much of mode and ACL is copied. `unprotect` trusts that the owner has chosen who may read a file.
    package enum Permissions {
        case all
        /// The group is another one: it gets no permissions, and no ACL is copied.
        case withoutGroup
        /// Another user chose them: group and others get no permissions, and neither ACL nor set-user-id bit is copied.
        case ofOwnerOnly

        init(ofOwner isOwners: Bool, group isGroups: Bool) {
            self = !isOwners ? .ofOwnerOnly : isGroups ? .all : .withoutGroup
        }

        /// Of a copy that the caller made.
        package init(of copy: stat, copiedFrom original: stat) {
            self.init(ofOwner: original.st_uid == geteuid(), group: copy.st_gid == original.st_gid)
        }

        package var mask: mode_t {
            switch self {
            case .all: 0o7777
            case .withoutGroup: 0o5707
            case .ofOwnerOnly: 0o700
            }
        }
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
