import DurableFiles
import Keybags
import ProtectedFiles
import SystemPackage

/// What a backup, or a restore, did with one item.
package struct BackupResult: Sendable {
    package enum Outcome: Sendable {
        /// A file, or a link, is there now as it was.
        case copied
        /// It was there already.
        case unchanged
        /// It is not in the tree any more, and was taken out of the backup.
        case removed
        /// A file that is not protected: it is not copied.
        case notProtected
        /// Another file system is mounted there.
        case otherFileSystem
        /// Neither a file nor a directory nor a link.
        case notRegularFile
        /// A copy is damaged, and an earlier one, which was kept beside it, was brought back.
        case restoredEarlier(DataProtectionError)
        case failed(DataProtectionError)
    }

    /// Where it is, or is to be: in the tree that is copied, or that is restored.
    package let path: FilePath
    package let outcome: Outcome
    /// Stored bytes.
    package var size: Int64 = 0
    /// How many names a file has; each becomes a file of its own.
    package var nameCount = 1
}
