import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The lock under which the heads of a file are read and replaced, for somebody who does not wait for ever. FORMAT.md §3.9.
extension LowerFile {
    /// The id of a protected file, unverified; nil if this is none.
    package func fileID() throws(DataProtectionError) -> FileID? {
        try lockSlot(.shared, waiting: LowerFile.patience)
        let result: Result<FileID?, DataProtectionError>
        do throws(DataProtectionError) {
            result = .success(try HeadPair(of: self).head.prefix.fileID)
        } catch .notProtected {
            result = .success(nil)
        } catch {
            result = .failure(error)
        }
        try unlockByte(OpenFile.slotLock)
        return try result.get()
    }

    /// Takes the slot lock until the file is closed or the byte is given back. Somebody may sit on it for ever.
    ///
    /// - Parameter patience: in nanoseconds.
    /// - Throws: `busy`.
    package func lockSlot(_ kind: LockKind, waiting patience: UInt64) throws(DataProtectionError) {
        let deadline = Clock.monotonic() + patience
        while try !tryByteLock(OpenFile.slotLock, kind) {
            guard Clock.monotonic() < deadline else { throw .busy(path) }
            usleep(5_000)
        }
    }
}

extension LowerFile {
    /// Opens a regular file under exactly this name, for reading.
    ///
    /// - Throws: `notRegularFile`, for a link too; `system`.
    package static func toLookAt(_ path: FilePath) throws(DataProtectionError) -> LowerFile {
        try notFollowing(path) { () throws(DataProtectionError) in
            try LowerFile(regular: path, flags: O_RDONLY | O_NOFOLLOW)
        }
    }

    /// Opens a file under exactly this name.
    ///
    /// - Throws: `notRegularFile` for a link.
    package static func notFollowing(
        _ path: FilePath, _ open: () throws(DataProtectionError) -> LowerFile
    ) throws(DataProtectionError) -> LowerFile {
        do throws(DataProtectionError) { return try open() } catch {
            guard error.errno == .tooManySymbolicLinkLevels else { throw error }
            throw .notRegularFile(path)
        }
    }
}
