import Glibc
import SystemPackage

/// Small files that are wholly old or wholly new, whatever happens: write, fsync, rename, fsync of the directory.
package enum AtomicReplace {
    /// Replaces (or makes) `directory/name` by way of `directory/temporaryName`, mode 0600.
    package static func write(
        _ bytes: [UInt8], to name: String, in directory: FilePath, through temporaryName: String
    ) throws(DataProtectionError) {
        try write(bytes, to: directory.appending(name), through: directory.appending(temporaryName)) {
            temporary, path throws(DataProtectionError) in try rename(temporary, to: path)
        }
    }

    /// The same by paths in one directory.
    ///
    /// - Parameter publish: gives the finished file its name.
    package static func write(
        _ bytes: [UInt8], to path: FilePath, through temporary: FilePath,
        _ publish: (_ temporary: FilePath, _ path: FilePath) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        // What a killed process left there is in nobody's hands: replacing goes on under the directory's lock.
        try remove(temporary)
        do throws(DataProtectionError) {
            let file = try LowerFile(temporary, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
            try file.write(bytes, at: 0)
            try file.flushAll()
            try publish(temporary, path)
        } catch {
            try? remove(temporary)
            throw error
        }
        try flushDirectory(path.directory)
    }

    /// The same in an open directory, wherever its path leads by now.
    package static func write(
        _ bytes: [UInt8], to entry: DirectoryEntry, through name: FilePath.Component
    ) throws(DataProtectionError) {
        let directory = entry.directory
        try directory.remove(name)
        do throws(DataProtectionError) {
            let temporary = DirectoryEntry(name, in: directory)
            let descriptor = try retrying(temporary.path, "open") {
                name.withPlatformString {
                    openat(directory.descriptor, $0, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
                }
            }
            let file = LowerFile(path: temporary.path, descriptor: descriptor)
            try file.write(bytes, at: 0)
            try file.flushAll()
            try directory.rename(name, to: entry.name)
        } catch {
            try? directory.remove(name)
            throw error
        }
        try directory.flush()
    }

    /// For ``write(_:to:through:_:)``: takes no other file's place.
    package static func publishAsNew(_ temporary: FilePath, _ path: FilePath) throws(DataProtectionError) {
        let (old, new) = (try DirectoryEntry(temporary), try DirectoryEntry(path))
        try new.directory.renameIfFree(old.name, to: new.name)
    }

    /// unlink(2); a name that is not there is fine.
    package static func remove(_ path: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            _ = try retrying(path, "unlink") { path.withPlatformString { unlink($0) } }
        } catch .system(_, _, .noSuchFileOrDirectory) {}
    }

    /// rename(2).
    package static func rename(_ old: FilePath, to new: FilePath) throws(DataProtectionError) {
        _ = try retrying(new, "rename") {
            old.withPlatformString { old in new.withPlatformString { new in Glibc.rename(old, new) } }
        }
    }

    /// fsync(2) of a file that somebody else has written.
    package static func flush(_ file: FilePath) throws(DataProtectionError) {
        try LowerFile(file, flags: O_RDONLY | O_NOFOLLOW).flushAll()
    }

    /// fsync(2) of a directory, which makes renames in it last.
    package static func flushDirectory(_ directory: FilePath) throws(DataProtectionError) {
        try LowerFile(directory, flags: O_RDONLY | O_DIRECTORY).flushAll()
    }
}
