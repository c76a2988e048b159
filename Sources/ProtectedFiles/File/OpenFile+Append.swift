import DurableFiles
import Keybags

extension OpenFile {
    /// Writes all of `buffer` behind the last byte and returns where that was.
    ///
    /// The end is looked up by the one writer that there is, so that two processes that append lose nothing of each other.
    package func append(_ buffer: UnsafeRawBufferPointer) throws(DataProtectionError) -> UInt64 {
        guard isWritable else { throw .notOpen(file.path, for: .write) }
        if let failure { throw .handleFailed(file.path, failure) }
        if writer == nil { try beginWriting(.write) }
        let end = try size()
        try write(buffer, at: end)
        return end
    }
}
