import Glibc
import SystemPackage

/// What a file carries beside its bytes: owner, mode, times, extended attributes and with them ACLs.
enum FileAttributes {
    /// Copies all of it, so that a converted file is the same to everybody but for its bytes.
    static func copy(from source: LowerFile, to target: LowerFile) throws(DataProtectionError) {
        let status = try source.status()
        let own = try target.status()
        if own.st_uid != status.st_uid || own.st_gid != status.st_gid {
            _ = try retrying(target.path, "fchown") { fchown(target.descriptor, status.st_uid, status.st_gid) }
        }
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, status.st_mode & 0o7777) }
        try ExtendedAttributes.copy(from: source, to: target) { name in
            name.hasPrefix("user.") || name == "system.posix_acl_access"
        }
        var times = [status.st_atim, status.st_mtim]
        _ = try retrying(target.path, "futimens") { futimens(target.descriptor, &times) }
    }

    /// What a file that replaces another one takes over: mode and ACL always, the owner where it may.
    static func inherit(from source: LowerFile, to target: LowerFile) throws(DataProtectionError) {
        let status = try source.status()
        _ = fchown(target.descriptor, status.st_uid, status.st_gid)
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, status.st_mode & 0o7777) }
        try ExtendedAttributes.copy(from: source, to: target) { $0 == "system.posix_acl_access" }
    }

    /// The mode of a file that replaces nothing: 0666 less the umask, as open(2) would make it.
    static func setDefaultMode(_ target: LowerFile) throws(DataProtectionError) {
        _ = try retrying(target.path, "fchmod") { fchmod(target.descriptor, 0o666 & ~currentMask()) }
    }

    /// /proc, because umask(2) can only be read by changing it for all threads.
    private static func currentMask() -> mode_t {
        let status = try? LowerFile("/proc/self/status", flags: O_RDONLY).bytes(at: 0, count: 256)
        let text = String(decoding: status ?? [], as: UTF8.self)
        guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix("Umask:") }),
            let mask = mode_t(line.dropFirst(6).filter(\.isNumber), radix: 8)
        else { return 0o077 }
        return mask
    }
}

extension LowerFile {
    /// - Throws: `notRegularFile`.
    func requireRegular() throws(DataProtectionError) {
        guard try status().st_mode & S_IFMT == S_IFREG else { throw .notRegularFile(path) }
    }
}
