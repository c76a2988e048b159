import DurableFiles
import Keybags
import ProtectionKeys
import SystemPackage

/// Bytes that come once and are needed more than once, in a protected file that never has a name: written to its end, then read.
///
/// When its process dies, it was never there.
package final class ProtectedSpool {
    private let new: NewFile
    private var file: OpenFile?

    /// - Parameter path: in whose directory the bytes lie.
    /// - Throws: `locked` when the class key is not here; `system`.
    package init(
        beside path: FilePath, as protectionClass: ProtectionClass, keybag: Keybag
    ) throws(DataProtectionError) {
        new = try NewFile(path, as: protectionClass, layout: .large, keybag: keybag)
    }

    /// Appends bytes; not after the first ``read(into:at:)``.
    package func append(_ bytes: UnsafeRawBufferPointer) throws(DataProtectionError) {
        guard file == nil else { throw .because(FileFailure.notOpen(new.path, for: .write)) }
        try new.append(bytes)
    }

    /// Reads up to `buffer.count` bytes from `offset` on; fewer only at the end.
    package func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(DataProtectionError) -> Int {
        try finished().read(into: buffer, at: UInt64(max(0, offset)))
    }

    private func finished() throws(DataProtectionError) -> OpenFile {
        if let file { return file }
        try new.finish()
        let file = try new.handle()
        self.file = file
        return file
    }
}
