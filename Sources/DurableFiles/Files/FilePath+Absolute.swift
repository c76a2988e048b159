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
}
