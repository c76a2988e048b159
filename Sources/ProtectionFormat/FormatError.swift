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
        case head
        case wrapRecord = "wrap record"
        case commitment = "key commitment"
        case contentRecord = "content record"
        case inlineFile = "inline file"
        case redoRecord = "redo record"
        case chunk
        case keybag
        case attempts
        case ringPayload = "keyring payload"
        case recoveryExport = "recovery export"
    }
}
