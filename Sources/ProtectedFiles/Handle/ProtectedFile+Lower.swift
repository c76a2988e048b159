import DurableFiles
import Keybags

extension ProtectedFile {
    /// A handle for reading a file that was opened by its directory, for example.
    ///
    /// - Throws: what `open(_:_:)` of a path throws.
    package static func reading(_ file: LowerFile, keybag: Keybag) throws(DataProtectionError) -> ProtectedFile {
        let open = OpenFile(file, keybag: keybag, isWritable: false)
        // Opening asks for the key, whatever other handles hold.
        _ = try open.size(.open)
        return ProtectedFile(open)
    }
}
