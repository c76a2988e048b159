import DataProtection
import SharedDatabase

/// A file that a part of a download is in: `.NAME.protectfs-download-ID-number`.
struct SegmentRecord: Hashable, Sendable {
    let number: Int
    /// The offset of its first byte in the download.
    var start: UInt64
    /// Bytes of it that are flushed for certain.
    var synced: UInt64
    /// Names the protected file, 16 bytes: another file under the same name is not this part. Nil before its first byte is flushed.
    var fileID: [UInt8]?
    /// Proves by that file's own key that it was made for this part, 28 bytes; nil like `fileID`, and of earlier versions.
    var seal: [UInt8]?

    var end: UInt64 { start + synced }
}

extension SegmentRecord {
    /// - Parameters:
    ///   - file: just made for this part, or judged as one.
    ///   - id: of the download.
    init(
        number: Int, start: UInt64, synced: UInt64, in file: ProtectedFile, of id: DownloadID
    ) throws(DataProtectionError) {
        (self.number, self.start, self.synced) = (number, start, synced)
        fileID = try file.openedID()
        seal = try file.seal(.part(UInt64(number), of: id.bytes, as: file.openedClass()))
    }
}

/// What the list knows of the bytes that have come: which version of the resource they belong to, and which files they are in.
///
/// It is sealed as one value (FORMAT.md §2.14, `resource`). Somebody who can write to the list and to the files, but has no key, can only
/// put back an earlier value as a whole. A part cannot be moved to another offset, and parts of two versions cannot be mixed.
struct PartialRecord: Hashable, Sendable {
    var resource: ResourceIdentity
    /// In their order.
    var parts: [SegmentRecord]
    /// Whether every byte is there. `resource` has the length then, also where no server has said it.
    var isWhole = false

    /// The offset behind the last byte that is flushed.
    var end: UInt64 { parts.last?.end ?? 0 }

    /// Of a part that follows.
    var nextNumber: Int { (parts.last?.number ?? -1) + 1 }
}

extension SegmentRecord: Codable {
    private enum Key: CodingKey { case number, start, synced, fileID, seal }

    /// - Throws: `DecodingError` for numbers that nothing could be added to.
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: Key.self)
        let most = UInt64(StoredRow.largest)
        number = try values.decode(Int.self, forKey: .number)
        (start, synced) = (
            try values.decode(UInt64.self, forKey: .start), try values.decode(UInt64.self, forKey: .synced)
        )
        fileID = try values.decodeIfPresent([UInt8].self, forKey: .fileID)
        seal = try values.decodeIfPresent([UInt8].self, forKey: .seal)
        guard 0...Int(most) ~= number, start <= most, synced <= most else {
            throw DecodingError.dataCorruptedError(
                forKey: .number, in: values, debugDescription: "a part makes no sense")
        }
    }
}

/// The fields of the resource, and beside them `parts` and `isWhole`.
extension PartialRecord: Codable {
    private enum Key: CodingKey { case parts, isWhole }

    /// Earlier versions kept the parts in clear. Those could have been altered, so they count as missing.
    init(from decoder: any Decoder) throws {
        resource = try ResourceIdentity(from: decoder)
        let values = try decoder.container(keyedBy: Key.self)
        parts = try values.decodeIfPresent([SegmentRecord].self, forKey: .parts) ?? []
        isWhole = try values.decodeIfPresent(Bool.self, forKey: .isWhole) ?? false
    }

    func encode(to encoder: any Encoder) throws {
        try resource.encode(to: encoder)
        var values = encoder.container(keyedBy: Key.self)
        try values.encode(parts, forKey: .parts)
        try values.encode(isWhole, forKey: .isWhole)
    }
}
