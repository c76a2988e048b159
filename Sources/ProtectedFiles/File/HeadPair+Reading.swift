import DurableFiles
import Glibc
import ProtectionFormat
import SystemPackage

extension HeadPair {
    /// The heads of an open file; under the slot lock.
    package init(of file: LowerFile) throws(DataProtectionError) {
        do throws(Trouble) { self = try HeadPair(reading: file, isLocked: true) } catch { throw error.reported }
    }

    /// The same by a look that changes nothing, not even who may write; under the slot lock only if a commit may be in progress.
    ///
    /// - Parameter path: a regular file; a link is not followed.
    package init(lookingAt path: FilePath) throws(DataProtectionError) {
        try self.init(lookingAt: LowerFile.toLookAt(path))
    }

    /// The same of an open file.
    package init(lookingAt file: LowerFile) throws(DataProtectionError) {
        do throws(Trouble) { self = try HeadPair(reading: file, isLocked: false) } catch .certain(let error) {
            throw error
        } catch {
            try file.lockSlot(.shared, waiting: LowerFile.patience)
            do throws(DataProtectionError) { self = try HeadPair(of: file) } catch {
                try file.unlockByte(OpenFile.slotLock)
                throw error
            }
            try file.unlockByte(OpenFile.slotLock)
        }
    }
}
