import Glibc
package import SystemPackage

/// The names in a directory.
package enum DirectoryListing {
    /// Sorted, without `.` and `..`; names that are not UTF-8 are kept as the file system has them.
    static func components(of directory: FilePath) throws(DataProtectionError) -> [FilePath.Component] {
        guard let stream = directory.withPlatformString({ opendir($0) }) else {
            throw .system(directory, operation: "opendir", Errno(rawValue: errno))
        }
        return components(reading: stream)
    }

    /// The same of an open directory, which is closed then; in the order of their bytes.
    static func components(reading stream: OpaquePointer) -> [FilePath.Component] {
        var found: [FilePath.Component] = []
        _ = forEach(reading: stream) { component in
            found.append(component)
            return true
        }
        return found.map { (FilePath(root: nil, [$0]).bytes, $0) }
            .sorted { $0.0.lexicographicallyPrecedes($1.0) }.map(\.1)
    }

    /// In no order, until `body` says false.
    ///
    /// - Returns: whether it never did.
    static func forEach(reading stream: OpaquePointer, _ body: (FilePath.Component) -> Bool) -> Bool {
        defer { closedir(stream) }
        while let entry = readdir(stream) {
            let component = withUnsafePointer(to: &entry.pointee.d_name) { name in
                name.withMemoryRebound(to: CInterop.PlatformChar.self, capacity: 256) {
                    FilePath.Component(platformString: $0)
                }
            }
            if let component, component.kind == .regular, !body(component) { return false }
        }
        return true
    }

    /// The names that are valid UTF-8.
    package static func names(of directory: FilePath) throws(DataProtectionError) -> [String] {
        try components(of: directory).map(\.string)
    }
}
