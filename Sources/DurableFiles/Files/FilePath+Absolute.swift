import Glibc
package import SystemPackage

extension FilePath {
    /// The path without the current directory in it.
    package func absolute() throws(DataProtectionError) -> FilePath {
        if isAbsolute { return self }
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        guard getcwd(&buffer, buffer.count) != nil else {
            throw .system(self, operation: "getcwd", Errno(rawValue: errno))
        }
        return FilePath(platformString: buffer).pushing(self)
    }

    /// Where the path leads, absolute and without links; nil if there is nothing, and errno says why. realpath(3).
    package var canonical: FilePath? {
        guard let found = withPlatformString({ realpath($0, nil) }) else { return nil }
        defer { free(found) }
        return FilePath(platformString: found)
    }
}
