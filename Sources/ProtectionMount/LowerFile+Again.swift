import DataProtection
import DurableFiles
import Glibc
import SystemPackage

extension LowerFile {
    /// The same file, opened by what has it open.
    func openedAgain(_ flags: Int32) throws(Errno) -> LowerFile {
        try refusing { () throws(DataProtectionError) in
            let again = try retrying(path, "open") {
                descriptorPath.withPlatformString { open($0, flags | O_CLOEXEC | O_NONBLOCK) }
            }
            return LowerFile(path: path, descriptor: again)
        }
    }
}

extension LowerFile {
    /// O_NOATIME of fcntl.h, which hides it behind _GNU_SOURCE.
    static let untouched: Int32 = 0o1_000_000
}

extension LowerDirectory {
    /// A file in it, for a look that no program has asked for: its time of access stays.
    func fileUntouched(_ name: FilePath.Component) throws(DataProtectionError) -> LowerFile {
        let path = path.entry(name)
        do throws(DataProtectionError) {
            return try file(name, flags: O_RDONLY | LowerFile.untouched, path: path)
        } catch {
            guard error.errno == .notPermitted else { throw error }
            return try file(name, flags: O_RDONLY, path: path)
        }
    }
}

extension LowerFile {
    /// The same file, opened once more so that each write(2) goes behind its end, whatever other programs have written by then. A mapping of the
    /// file needs the other descriptor.
    func appending() throws(DataProtectionError) -> LowerFile {
        let opened = try retrying(path, "open") {
            descriptorPath.withPlatformString { open($0, O_WRONLY | O_APPEND | O_CLOEXEC) }
        }
        return LowerFile(path: path, descriptor: opened)
    }
}
