import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Files that are written under a name for the time being, over days and by more than one process, and published when they are
/// finished: a download's.
extension ProtectedFile {
    /// Creates a file that must not be there yet, in the form of large ones. See ``create(_:as:raiseTo:keybag:)``.
    package static func createLarge(
        _ path: FilePath, as protectionClass: ProtectionClass, keybag: Keybag
    ) throws(DataProtectionError) -> ProtectedFile {
        let new = try NewFile(path, as: protectionClass, layout: .large, keybag: keybag)
        try new.finish()
        try new.publish(replacing: false)
        return ProtectedFile(try new.handle())
    }

    /// Writes what was written so far to the disk, so that the next ``sync()`` has little left to do. Commits nothing, and does not block writes
    /// meanwhile.
    ///
    /// - Throws: `system`. The kernel reports a failed write only once: after this error the file must never count as synced.
    package func flushAhead() throws(DataProtectionError) { try lower.flush() }

    /// The 16 bytes that name the file whatever it is called, unverified. Needs no key.
    package static func fileID(at path: FilePath) throws(DataProtectionError) -> [UInt8] {
        guard let id = try LowerFile.forHeads(of: path, flags: O_NOFOLLOW).fileID() else { throw .notProtected(path) }
        return id.bytes
    }
}
