import CDirectoryEntries
import CExtendedAttributes
import Glibc
import ProtectionKeys
import SystemPackage

/// A directory's default class: the attribute `user.protectfs.class` of the directory, which holds for new files in it, and below it in
/// directories that have none of their own.
enum DirectoryDefault {
    static let attribute = "user.protectfs.class"

    /// What the attribute of the directory itself says. Attributes of directories that belong to others are ignored.
    static func value(of directory: FilePath) -> String? {
        var status = stat()
        guard directory.withPlatformString({ stat($0, &status) }) == 0, status.st_uid == geteuid(),
            let value = ExtendedAttributes.get(attribute, of: directory)
        else { return nil }
        return String(decoding: value, as: UTF8.self)
    }

    static func set(_ protectionClass: ProtectionClass, of directory: FilePath) throws(DataProtectionError) {
        try ExtendedAttributes.set(attribute, to: Array(protectionClass.shortName.utf8), of: directory)
    }

    /// The class that the directory itself has; nil if it has none. An unusable value counts as class C.
    static func named(by directory: FilePath) -> ProtectionClass? {
        value(of: directory).map { DefaultClass(directory: $0).resolve().protectionClass }
    }

    static func remove(from directory: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) { try ExtendedAttributes.remove(attribute, of: directory) } catch {
            guard error.errno == .noData || error.errno == .notSupported else { throw error }
        }
    }

    static func isDirectory(_ path: FilePath) -> Bool {
        var status = stat()
        return path.withPlatformString { stat($0, &status) } == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}

extension DirectoryDefault {
    /// The attribute that decides for new files in a directory.
    struct Nearest {
        let value: String
        /// The directory that has it.
        let directory: FilePath
        /// Whether it counts. The directory of another user has no say, and ends the search.
        let isOwn: Bool
    }

    /// The nearest directory with the attribute, from `directory` upwards; nil if there is none.
    ///
    /// The search goes by `..` of open directories, so that a link on the path leads nowhere else. It ends at a directory of another
    /// user, at the root of a mount, and at a directory that may not be searched.
    /// - Throws: `system` if an attribute cannot be read, which could be one that asks for a stronger class. A directory that is not
    ///   there has none: creating a file in it fails anyway.
    static func nearest(to directory: FilePath) throws(DataProtectionError) -> Nearest? {
        var next: LowerDirectory?
        do throws(DataProtectionError) { next = try LowerDirectory(lookingAt: directory) } catch {
            let reasons: [Errno] = [
                .noSuchFileOrDirectory, .notDirectory, .permissionDenied, .tooManySymbolicLinkLevels,
            ]
            guard reasons.contains(error.errno) else { throw error }
        }
        var isFirst = true
        while let here = next {
            let isOwn = try here.status().st_uid == geteuid()
            if let value = try value(in: here) {
                let place = isFirst ? directory : (try? here.descriptorPath.resolved()) ?? here.path
                return Nearest(value: value, directory: place, isOwn: isOwn)
            }
            next = isOwn ? try here.parent() : nil
            isFirst = false
        }
        return nil
    }

    /// What fgetxattr(2) says where there is no such attribute, or where its owner does not let us see it.
    private static let saysNothing: [Errno] = [.noData, .notSupported, .permissionDenied, .notPermitted]

    /// A value that is too long says nothing that we know.
    private static func value(in directory: LowerDirectory) throws(DataProtectionError) -> String? {
        var value = [UInt8](repeating: 0, count: 256)
        do throws(DataProtectionError) {
            // The descriptor may be one that is only good for looking up names.
            let open = try retrying(directory.path, "openat") {
                openat(directory.descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            }
            defer { close(open) }
            let count = try retrying(directory.path, "fgetxattr") { fgetxattr(open, attribute, &value, value.count) }
            return String(decoding: value[..<count], as: UTF8.self)
        } catch {
            if error.errno == .outOfRange { return "" }
            guard saysNothing.contains(error.errno) else { throw error }
            return nil
        }
    }
}

extension LowerDirectory {
    /// O_PATH of fcntl.h, which hides it behind _GNU_SOURCE.
    private static let pathOnly: Int32 = 0o10_000_000

    /// Opens a directory to look up names from it, for which no permission to read it is needed.
    fileprivate convenience init(lookingAt path: FilePath) throws(DataProtectionError) {
        let descriptor = try retrying(path, "open") {
            path.withPlatformString { open($0, Self.pathOnly | O_DIRECTORY | O_CLOEXEC) }
        }
        self.init(path, descriptor: descriptor)
    }

    /// The directory above, in the same mount; nil if there is none, or this one may not be searched.
    fileprivate func parent() throws(DataProtectionError) -> LowerDirectory? {
        let above = path.appending("..")
        let found: LowerDirectory
        do throws(DataProtectionError) {
            let opened = try retrying(above, "openat2") {
                protectfs_open_parent(descriptor, Self.pathOnly | O_DIRECTORY)
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
                openat(descriptor, "..", Self.pathOnly | O_DIRECTORY | O_CLOEXEC)
            }
            let found = LowerDirectory(above, descriptor: opened)
            let (own, other) = (try status(), try found.status())
            return own.st_dev != other.st_dev || other.isSameItem(as: own) ? nil : found
        } catch .system(_, _, .permissionDenied) {
            return nil
        }
    }
}
