import Glibc
import SystemPackage

/// The names in a directory. Half of them is never taken for all: what readdir(3) cannot read is an error.
package enum DirectoryListing {
    /// In the order of their bytes, without `.` and `..`; names that are not UTF-8 are kept as the file system has them.
    package static func components(of directory: FilePath) throws(DataProtectionError) -> [FilePath.Component] {
        guard let stream = directory.withPlatformString({ opendir($0) }) else {
            throw .system(directory, operation: "opendir", Errno(rawValue: errno))
        }
        return try components(reading: stream, of: directory)
    }

    /// The same of an open directory, which is closed then.
    package static func components(
        reading stream: OpaquePointer, of directory: FilePath
    ) throws(DataProtectionError) -> [FilePath.Component] {
        var found: [FilePath.Component] = []
        _ = try forEach(reading: stream, of: directory) { component in
            found.append(component)
            return true
        }
        return found.map { (FilePath(root: nil, [$0]).bytes, $0) }
            .sorted { $0.0.lexicographicallyPrecedes($1.0) }.map(\.1)
    }

    /// In no order, until `body` says false.
    ///
    /// - Returns: whether it never did.
    package static func forEach(
        reading stream: OpaquePointer, of directory: FilePath, _ body: (FilePath.Component) -> Bool
    ) throws(DataProtectionError) -> Bool {
        defer { closedir(stream) }
        while let component = try next(of: stream, directory) {
            if component.kind == .regular, !body(component) { return false }
        }
        return true
    }

    /// Nil at the end.
    private static func next(
        of stream: OpaquePointer, _ directory: FilePath
    ) throws(DataProtectionError) -> FilePath.Component? {
        while true {
            errno = 0  // which alone tells an error from the end
            guard let entry = readdir(stream) else {
                switch errno {
                case 0: return nil
                case EINTR: continue
                default: throw .system(directory, operation: "readdir", Errno(rawValue: errno))
                }
            }
            let component = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CInterop.PlatformChar.self, capacity: 256) {
                    FilePath.Component(platformString: $0)
                }
            }
            if let component { return component }
        }
    }

    /// Those that are valid UTF-8, in the order of their bytes.
    package static func names(of directory: FilePath) throws(DataProtectionError) -> [String] {
        try components(of: directory).compactMap { String(validating: $0) }
    }

    /// The same; none where there is no such directory.
    package static func namesIfThere(in directory: FilePath) throws(DataProtectionError) -> [String] {
        do throws(DataProtectionError) { return try names(of: directory) } catch .system(_, _, .noSuchFileOrDirectory) {
            return []
        }
    }
}
