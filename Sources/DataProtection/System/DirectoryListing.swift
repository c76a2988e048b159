import Glibc
import SystemPackage

/// The names in a directory.
enum DirectoryListing {
    /// Sorted, without `.` and `..`; names that are not UTF-8 are kept as the file system has them.
    static func components(of directory: FilePath) throws(DataProtectionError) -> [FilePath.Component] {
        guard let stream = directory.withPlatformString({ opendir($0) }) else {
            throw .system(directory, operation: "opendir", Errno(rawValue: errno))
        }
        defer { closedir(stream) }
        var found: [FilePath.Component] = []
        while let entry = readdir(stream) {
            let component = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CInterop.PlatformChar.self, capacity: 256) {
                    FilePath.Component(platformString: $0)
                }
            }
            if let component, component.kind == .regular { found.append(component) }
        }
        return found.sorted { $0.string < $1.string }
    }

    /// The names that are valid UTF-8.
    static func names(of directory: FilePath) throws(DataProtectionError) -> [String] {
        try components(of: directory).map(\.string)
    }
}
