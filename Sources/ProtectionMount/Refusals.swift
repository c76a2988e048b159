import DataProtection
import Glibc
import SystemPackage

/// The errno that a program gets: EIO for what is damaged, ENOKEY for what no key opens now.
func refusing<R>(_ body: () throws(DataProtectionError) -> R) throws(Errno) -> R {
    do throws(DataProtectionError) { return try body() } catch {
        throw error.errno == .badMessage ? .ioError : error.errno
    }
}

extension MountedTree {
    /// The other way: where a function of files calls one of the mount.
    func reporting<R>(_ body: () throws(Errno) -> R) throws(DataProtectionError) -> R {
        do throws(Errno) { return try body() } catch { throw .system(tree.root.path, operation: "open", error) }
    }
}

extension Errno {
    /// ENOKEY: "Required key not available".
    static var noKey: Errno { Errno(rawValue: ENOKEY) }
}
