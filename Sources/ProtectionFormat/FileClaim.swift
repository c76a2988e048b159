import ProtectionKeys

/// What a note says of a file, and only the key of that file can prove: 28 bytes in the note.
///
///     SEAL(head key, AAD(5, 1 or 2, what is said), empty)
///
/// While locked nobody has the head key of a file of class A or B that was closed. So nobody can have such a file taken for something that it is
/// not.
public struct FileClaim: Sendable {
    private let index: UInt64
    private let text: [UInt8]

    /// Of a log: these bytes of a segment are about to be written there. FORMAT.md §2.8, `begun`.
    ///
    /// - Parameters:
    ///   - segment: its file id, 16 bytes.
    ///   - offset: in the log.
    ///   - from: in the segment.
    ///   - count: how many bytes.
    ///   - digest: SHA-256 of them, 32 bytes: somebody who has the key of the segment can put other bytes there.
    public static func begun(
        segment: [UInt8], offset: UInt64, from: UInt64, count: UInt64, digest: [UInt8]
    ) -> FileClaim {
        var text = segment
        for number in [offset, from, count] { text.append(littleEndian: number) }
        return FileClaim(index: 1, text: text + digest)
    }

    /// Of a file: it was made for a part of a download. FORMAT.md §2.14.
    ///
    /// - Parameters:
    ///   - number: of the part.
    ///   - download: its id, 16 bytes.
    ///   - protectionClass: what the file has: when it is finished, and gets a stronger one, the seal is worth nothing.
    public static func part(_ number: UInt64, of download: [UInt8], as protectionClass: ProtectionClass) -> FileClaim {
        var text = download
        text.append(littleEndian: number)
        return FileClaim(index: 2, text: text + [protectionClass.rawValue])
    }

    /// 28 bytes.
    ///
    /// - Parameters:
    ///   - prefix: of the file.
    ///   - headKey: of the file.
    public func seal(in prefix: Prefix, under headKey: borrowing SecretBytes) throws(KeyError) -> [UInt8] {
        try emptySeal(under: headKey, associated: associated(prefix))
    }

    /// Whether that is a seal for this claim and this file.
    public func isProved(
        by seal: [UInt8], in prefix: Prefix, under headKey: borrowing SecretBytes
    ) throws(KeyError) -> Bool {
        try JoinSeal.isGood(seal, associated(prefix), under: headKey)
    }

    private func associated(_ prefix: Prefix) -> [UInt8] {
        prefix.associatedData(.joinNote, index: index, extra: text)
    }
}
