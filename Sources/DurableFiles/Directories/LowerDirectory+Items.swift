import CDirectoryEntries
import Glibc
import SystemPackage

/// Names as system calls make and take them: nothing is lasting before ``flush()``, and nothing is made good.
extension LowerDirectory {
    /// What has that name, a link itself too, opened neither for reading nor for writing: for its status, mode, owner, times and links, by
    /// ``LowerFile/descriptorPath``.
    package func item(_ name: FilePath.Component) throws(DataProtectionError) -> LowerFile {
        let path = path.entry(name)
        let opened = try retrying(path, "openat") {
            name.withPlatformString { openat(descriptor, $0, LowerFile.pathOnly | O_NOFOLLOW | O_CLOEXEC) }
        }
        return LowerFile(path: path, descriptor: opened)
    }

    /// mkdirat(2).
    package func makeDirectory(_ name: FilePath.Component, mode: mode_t) throws(DataProtectionError) {
        _ = try retrying(path.entry(name), "mkdir") { name.withPlatformString { mkdirat(descriptor, $0, mode) } }
    }

    /// symlinkat(2).
    package func makeLink(_ name: FilePath.Component, to target: UnsafePointer<CChar>) throws(DataProtectionError) {
        _ = try retrying(path.entry(name), "symlink") {
            name.withPlatformString { symlinkat(target, descriptor, $0) }
        }
    }

    /// mknodat(2) of a FIFO or a socket.
    package func makeNode(_ name: FilePath.Component, mode: mode_t) throws(DataProtectionError) {
        _ = try retrying(path.entry(name), "mknodat") { name.withPlatformString { mknodat(descriptor, $0, mode, 0) } }
    }

    /// unlinkat(2), which tells of a name that is not there.
    ///
    /// - Parameter isDirectory: rmdir(2).
    package func unlink(_ name: FilePath.Component, isDirectory: Bool) throws(DataProtectionError) {
        _ = try retrying(path.entry(name), isDirectory ? "rmdir" : "unlink") {
            name.withPlatformString { unlinkat(descriptor, $0, isDirectory ? AT_REMOVEDIR : 0) }
        }
    }

    /// renameat(2), or renameat2(2) with RENAME_NOREPLACE.
    ///
    /// - Parameter isReplacing: false: EEXIST if something has the new name, and EINVAL where the file system cannot promise that.
    package func move(
        _ old: FilePath.Component, to new: FilePath.Component, in other: LowerDirectory, replacing isReplacing: Bool
    ) throws(DataProtectionError) {
        _ = try retrying(other.path.entry(new), "rename") {
            old.withPlatformString { old in
                new.withPlatformString { new in
                    isReplacing
                        ? renameat(descriptor, old, other.descriptor, new)
                        : protectfs_rename_new(descriptor, old, other.descriptor, new)
                }
            }
        }
    }

    /// renameat2(2) with RENAME_EXCHANGE.
    ///
    /// - Throws: `system`: ENOENT unless both names are there, EINVAL where the file system does not know that.
    package func exchange(
        _ one: FilePath.Component, with two: FilePath.Component, in other: LowerDirectory
    ) throws(DataProtectionError) {
        _ = try retrying(other.path.entry(two), "renameat2") {
            one.withPlatformString { one in
                two.withPlatformString { two in protectfs_exchange(descriptor, one, other.descriptor, two) }
            }
        }
    }

    /// ``MountTable/Mount/id`` of the mount that a name is on; a link is not followed, and no server of a file system is asked. Nil before Linux 5.8.
    package func mount(of name: FilePath.Component) -> UInt64? {
        let number = name.withPlatformString { protectfs_mount_of_entry(descriptor, $0) }
        return number == 0 ? nil : number
    }
}
