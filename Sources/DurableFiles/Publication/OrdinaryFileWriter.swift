import Glibc
import SystemPackage

/// Writes an ordinary file, which no class protects, from beginning to end: mode 0600, and whole under its name or not at all.
package final class OrdinaryFileWriter {
    private let unnamed: UnnamedFile
    private let isReplacing: Bool
    private var end: UInt64 = 0

    /// - Parameters:
    ///   - path: the file that appears when it is finished.
    ///   - replacing: whether a regular file under that name gives way.
    /// - Throws: `exists`, `notRegularFile`, `system`.
    package init(_ path: FilePath, replacing: Bool) throws(DataProtectionError) {
        let there = try path.status()
        if let there {
            guard replacing else { throw .exists(path) }
            guard there.st_mode & S_IFMT == S_IFREG else { throw .notRegularFile(path) }
        }
        isReplacing = replacing
        let unnamed = try UnnamedFile(path)
        _ = try retrying(path, "fchmod") { fchmod(unnamed.file.descriptor, 0o600) }
        self.unnamed = unnamed
    }

    /// Appends bytes.
    package func append(_ bytes: UnsafeRawBufferPointer) throws(DataProtectionError) {
        try unnamed.file.write(bytes, at: end)
        end += UInt64(bytes.count)
    }

    /// Gives the file its name. When this returns it survives a crash and a power cut.
    ///
    /// - Throws: `exists` if something has got that name meanwhile and is not to be replaced.
    package func finish() throws(DataProtectionError) {
        try unnamed.file.flushAll()
        try unnamed.publish(replacing: isReplacing)
    }
}
