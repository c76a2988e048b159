import DurableFiles
import Glibc
import Keybags
import ProtectionKeys
import SystemPackage

/// A directory's default class: the attribute `user.protectfs.class` of the directory, which holds for new files in it, and below it in
/// directories that have none of their own.
package enum DirectoryDefault {
    package static let attribute = "user.protectfs.class"

    /// What the attribute of the directory itself says. Attributes of directories that belong to others are ignored.
    package static func value(of directory: FilePath) -> String? {
        var status = stat()
        guard directory.withPlatformString({ stat($0, &status) }) == 0, status.st_uid == geteuid(),
            let value = ExtendedAttributes.get(attribute, of: directory)
        else { return nil }
        return String(decoding: value, as: UTF8.self)
    }

    /// - Parameter allowsWeaker: false: a class that is weaker than the one that the directory itself has is an error. It is asked and
    ///   set on the open directory, whatever the path leads to by then.
    package static func set(
        _ protectionClass: ProtectionClass, of path: FilePath, allowsWeaker: Bool = true
    ) throws(DataProtectionError) {
        let directory = try LowerDirectory(lookingAt: path)
        if !allowsWeaker, try directory.status().st_uid == geteuid(), let value = try value(in: directory) {
            let now = DefaultClass(directory: value).resolve().protectionClass
            try protectionClass.requireNotWeaker(than: now, path)
        }
        try ExtendedAttributes.set(attribute, to: Array(protectionClass.shortName.utf8), of: directory)
    }

    /// The class that the directory itself has; nil if it has none. An unusable value counts as class C.
    package static func named(by directory: FilePath) -> ProtectionClass? {
        value(of: directory).map { DefaultClass(directory: $0).resolve().protectionClass }
    }

    package static func remove(from directory: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) { try ExtendedAttributes.remove(attribute, of: directory) } catch {
            guard error.errno == .noData || error.errno == .notSupported else { throw error }
        }
    }

    /// The same of a directory that was found by the one above it.
    package static func remove(from entry: DirectoryEntry) throws(DataProtectionError) {
        let directory = try entry.directory.directory(entry.name, staying: false)
        defer { withExtendedLifetime(directory) {} }
        try remove(from: directory.descriptorPath)
    }

    package static func isDirectory(_ path: FilePath) -> Bool {
        var status = stat()
        return path.withPlatformString { stat($0, &status) } == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}

extension DirectoryDefault {
    /// The attribute that decides for new files in a directory.
    package struct Nearest {
        package let value: String
        /// The directory that has it.
        package let directory: FilePath
        /// Whether it counts. The directory of another user has no say, and ends the search.
        package let isOwn: Bool
    }

    /// The nearest directory with the attribute, from `directory` upwards; nil if there is none.
    ///
    /// The search goes by `..` of open directories, so that a link on the path leads nowhere else. It ends at a directory of another
    /// user, at the root of a mount, and at a directory that may not be searched.
    /// - Throws: `system` if an attribute cannot be read, which could be one that asks for a stronger class. A directory that is not
    ///   there has none: creating a file in it fails anyway.
    package static func nearest(to directory: FilePath) throws(DataProtectionError) -> Nearest? {
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
                let place = isFirst ? directory : (try? here.descriptorPath.resolvedName()) ?? here.path
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
        do throws(DataProtectionError) {
            return String(decoding: try ExtendedAttributes.get(attribute, in: directory), as: UTF8.self)
        } catch {
            if error.errno == .outOfRange { return "" }
            guard saysNothing.contains(error.errno) else { throw error }
            return nil
        }
    }
}
