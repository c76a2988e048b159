/// Why stored bytes are not what FORMAT.md says.
public enum FormatError: Error, Hashable, Sendable {
    /// A rule of the format is broken; `layer` says where.
    case damaged(Layer, reason: String)
    /// Well-formed, but of a version, feature, cipher, class or algorithm that this version does not know.
    case unsupported(what: String)
    /// Not one of our files.
    case notOurs

    /// The layer that refused.
    public enum Layer: String, Sendable, Hashable {
        /// The head as a whole, and its clear prefix. FORMAT.md §3.1.
        case head
        /// Class, keybag and wrapped key.
        case wrapRecord = "wrap record"
        /// What binds the file key to the file, checked before the key is used.
        case commitment = "key commitment"
        /// Size, holes and counters.
        case contentRecord = "content record"
        /// A file so small that it is in its head.
        case inlineFile = "inline file"
        /// What was committed and is not yet at its home.
        case redoRecord = "redo record"
        /// Data of mappings that came after a lock. FORMAT.md §2.8.
        case latePages = "late pages"
        /// A sealed piece of the contents.
        case chunk
        /// A copy of the keybag.
        case keybag
        /// The record of wrong passcodes.
        case attempts
        /// A keybag as text. FORMAT.md §2.9.
        case recoveryExport = "recovery export"
        /// The class keys of a backup. FORMAT.md §2.16.
        case backupKeybag = "backup keybag"
    }
}
