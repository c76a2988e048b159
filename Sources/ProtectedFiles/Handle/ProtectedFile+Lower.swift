import DurableFiles
import Keybags

extension ProtectedFile {
    /// A handle for reading a file that was opened by its directory, for example.
    ///
    /// - Throws: what `open(_:_:)` of a path throws.
    package static func reading(_ file: LowerFile, keybag: Keybag) throws(DataProtectionError) -> ProtectedFile {
        let open = OpenFile(file, keybag: keybag, isWritable: false)
        // Opening asks for the key, whatever other handles hold.
        _ = try open.state(.open)
        return ProtectedFile(open)
    }

    /// The same, and reads the first bytes of the file, which are one operation up to a MiB: the keyring is asked once.
    ///
    /// - Returns: the handle, and how many bytes were read, fewer than `buffer.count` only at the end of the file; nil if they cannot be
    ///   read, although the file can be opened: ``read(into:at:)`` then says why.
    /// - Throws: what `open(_:_:)` of a path throws.
    package static func reading(
        _ file: LowerFile, into buffer: UnsafeMutableRawBufferPointer, keybag: Keybag
    ) throws(DataProtectionError) -> (file: ProtectedFile, count: Int?) {
        let open = OpenFile(file, keybag: keybag, isWritable: false)
        // What keeps the file from being opened is thrown below, and what keeps it from being read by the next read.
        guard buffer.count > 0, let count = try? open.read(into: buffer, at: 0, for: .open) else {
            _ = try open.state(.open)
            return (ProtectedFile(open), nil)
        }
        return (ProtectedFile(open), count)
    }
}
