import CDirectoryEntries
import Glibc
import SystemPackage

/// Going upwards by open directories, so that a link on the path leads nowhere else.
extension LowerDirectory {
    /// Opens a directory to look up names from it, for which no permission to read it is needed.
    package convenience init(lookingAt path: FilePath) throws(DataProtectionError) {
        let descriptor = try retrying(path, "open") {
            path.withPlatformString { open($0, LowerFile.pathOnly | O_DIRECTORY | O_CLOEXEC) }
        }
        self.init(path, descriptor: descriptor)
    }

    /// The directory above, in the same mount; nil if there is none, or this one may not be searched.
    package func parent() throws(DataProtectionError) -> LowerDirectory? {
        let above = path.appending("..")
        let found: LowerDirectory
        do throws(DataProtectionError) {
            let opened = try retrying(above, "openat2") {
                protectfs_open_parent(descriptor, LowerFile.pathOnly | O_DIRECTORY)
            }
            found = LowerDirectory(above, descriptor: opened)
        } catch {
            switch error.errno {
            case .improperLink, .permissionDenied: return nil
            case .noFunction, .notPermitted: break
            default: throw error
            }
            return try parentOnDevice(above)
        }
        return try found.status().isSameItem(as: status()) ? nil : found
    }

    /// The same where the kernel is older than 5.6, or a sandbox does not know openat2(2): the mount ends where the device does.
    private func parentOnDevice(_ above: FilePath) throws(DataProtectionError) -> LowerDirectory? {
        do throws(DataProtectionError) {
            let opened = try retrying(above, "openat") {
                openat(descriptor, "..", LowerFile.pathOnly | O_DIRECTORY | O_CLOEXEC)
            }
            let found = LowerDirectory(above, descriptor: opened)
            let (own, other) = (try status(), try found.status())
            return own.st_dev != other.st_dev || other.isSameItem(as: own) ? nil : found
        } catch .system(_, _, .permissionDenied) {
            return nil
        }
    }
}
