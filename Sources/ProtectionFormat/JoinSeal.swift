import ProtectionKeys

/// Proves that the writer of a segment meant it for one log, and for no other: 28 bytes in the note that queues it. FORMAT.md §2.8.
///
///     SEAL(head key of the segment, AAD(5, 0, path of the log), empty)
///
/// While locked nobody has the head key of a file of class A or B that was closed, so nobody can have such a file taken for a segment.
public enum JoinSeal {
    /// Bytes of a seal.
    public static let length = 28

    /// Makes the seal.
    ///
    /// - Parameters:
    ///   - log: the absolute path of the log, byte for byte as in the note.
    ///   - prefix: of the segment.
    ///   - headKey: of the segment.
    public static func seal(
        log: [UInt8], in prefix: Prefix, under headKey: borrowing SecretBytes
    ) throws(KeyError) -> [UInt8] {
        try emptySeal(under: headKey, associated: prefix.associatedData(.joinNote, index: 0, extra: log))
    }

    /// Whether these bytes are a seal for that segment and that log.
    public static func isGood(
        _ seal: [UInt8], log: [UInt8], in prefix: Prefix, under headKey: borrowing SecretBytes
    ) throws(KeyError) -> Bool {
        try isGood(seal, prefix.associatedData(.joinNote, index: 0, extra: log), under: headKey)
    }

    static func isGood(
        _ seal: [UInt8], _ associated: [UInt8], under headKey: borrowing SecretBytes
    ) throws(KeyError) -> Bool {
        guard seal.count == length else { return false }
        do throws(KeyError) {
            try openEmptySeal(seal, under: headKey, associated: associated)
            return true
        } catch .authenticationFailed {
            return false
        }
    }
}
