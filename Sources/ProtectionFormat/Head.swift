import ProtectionKeys

/// One of the two heads of a protected file. FORMAT.md §3.1.
///
///     offset  bytes     field
///     0       64        prefix
///     64      204       wrap record
///     268     116…628   content record
///     384     L + 28    inline file, if any
///     …                 zero
///     4064    32        SHA-256 of the 4,064 bytes before
public struct Head: Hashable, Sendable {
    /// What does not change.
    public let prefix: Prefix
    /// Whose file it is.
    public let wrap: WrapRecord
    /// The stored wrap record, seal included: 204 bytes.
    public let wrapBytes: [UInt8]
    /// What it contains.
    public let content: SealedContent
    /// The sealed inline file, or empty.
    public let inline: [UInt8]

    /// The bytes of a head.
    public static let length = 4096
    /// How many bytes from its beginning tell whether a head has changed: prefix, wrap record and the fixed part of the
    /// content record.
    public static let clearLength = contentOffset + ContentRecord.fixedLength
    static let wrapOffset = 64
    static let contentOffset = 268
    static let inlineOffset = 384
    static let checkOffset = 4064

    /// The sum of both counters: the higher one is in force.
    public var generation: UInt64 { wrap.counter + content.record.counter }

    /// Puts a head together from records that are sealed already.
    public init(prefix: Prefix, wrap: WrapRecord, wrapBytes: [UInt8], content: SealedContent, inline: [UInt8]) {
        self.prefix = prefix
        self.wrap = wrap
        self.wrapBytes = wrapBytes
        self.content = content
        self.inline = inline
    }

    /// The same head with another wrap record, just sealed.
    public func replacing(wrap: WrapRecord, bytes: [UInt8]) -> Head {
        Head(prefix: prefix, wrap: wrap, wrapBytes: bytes, content: content, inline: inline)
    }

    /// The same head with another content.
    public func replacing(content: SealedContent, inline: [UInt8] = []) -> Head {
        Head(prefix: prefix, wrap: wrap, wrapBytes: wrapBytes, content: content, inline: inline)
    }

    /// Whether these 4,096 bytes begin with the magic and their keyless check is good. FORMAT.md §3.7 rule 1.
    public static func isGood(_ bytes: [UInt8]) throws(KeyError) -> Bool {
        guard bytes.count == length, bytes.starts(with: Prefix.magic) else { return false }
        let digest = try bytes.lendBytes { all throws(KeyError) in
            try Digest.sha256(UnsafeRawBufferPointer(rebasing: all[..<checkOffset]))
        }
        return digest.elementsEqual(bytes[checkOffset...])
    }

    /// Decodes a head that is good.
    public init(decoding bytes: [UInt8]) throws(FormatError) {
        guard bytes.count == Self.length else { throw .damaged(.head, reason: "length") }
        prefix = try Prefix(decoding: bytes)
        wrapBytes = Array(bytes[Self.wrapOffset..<Self.contentOffset])
        wrap = try WrapRecord(decoding: wrapBytes)
        let contentLength = try ContentRecord.length(at: Self.contentOffset, of: bytes)
        content = try SealedContent(
            decoding: Array(bytes[Self.contentOffset..<Self.contentOffset + contentLength]), layout: prefix.layout)
        let inlineLength = content.record.isInline ? Int(content.record.size) + ChunkLayout.overhead : 0
        inline = Array(bytes[Self.inlineOffset..<Self.inlineOffset + inlineLength])
        let end = max(Self.contentOffset + contentLength, Self.inlineOffset + inlineLength)
        var rest = ByteReader(bytes, from: end, layer: .head)
        try rest.zero(Self.checkOffset - end)
    }

    /// The records of a head that may be damaged, each for itself: for people who look at it, never for reading the file.
    public struct Records: Sendable {
        /// The clear prefix; nil where it breaks a rule of its own.
        public let prefix: Prefix?
        /// Class and wrapped key; nil likewise.
        public let wrap: WrapRecord?
        /// Size and holes; nil likewise.
        public let content: ContentRecord?

        /// Decodes what there is of 4,096 bytes, or fewer.
        public init(in bytes: [UInt8]) {
            guard bytes.count == Head.length else {
                (prefix, wrap, content) = (nil, nil, nil)
                return
            }
            prefix = try? Prefix(decoding: bytes)
            wrap = try? WrapRecord(decoding: Array(bytes[wrapOffset..<contentOffset]))
            let rest = Array(bytes[contentOffset..<contentOffset + ContentRecord.maximumLength])
            content = prefix.flatMap { prefix in
                (try? ContentRecord.length(at: 0, of: rest)).flatMap { length in
                    try? SealedContent(decoding: Array(rest[..<length]), layout: prefix.layout).record
                }
            }
        }
    }

    /// The stored form: 4,096 bytes.
    public func encoded() throws(KeyError) -> [UInt8] {
        var bytes = prefix.encoded
        bytes += wrapBytes
        bytes += content.bytes
        if content.record.isInline {
            bytes.pad(to: Self.inlineOffset)
            bytes += inline
        }
        bytes.pad(to: Self.checkOffset)
        return bytes + (try Digest.sha256(bytes))
    }

    /// Checks that `fileKey` is the key that was meant. FORMAT.md §3.7 rule 3.
    ///
    /// - Throws: `damaged(.commitment)`.
    public func checkCommitment(of fileKey: borrowing FileKey) throws(FormatError) {
        let commitment: [UInt8]
        do throws(KeyError) { commitment = try fileKey.commitment(of: prefix.fileID) } catch {
            throw .damaged(.commitment, reason: "\(error)")
        }
        guard areEqualInConstantTime(commitment, wrap.commitment) else {
            throw .damaged(.commitment, reason: "not the commitment of this file key")
        }
    }

    /// Checks both record seals. FORMAT.md §3.7 rule 3.
    ///
    /// - Throws: `damaged(.wrapRecord)`, `damaged(.contentRecord)`.
    public func authenticate(under headKey: borrowing SecretBytes) throws(FormatError) {
        let clear = Array(wrapBytes[..<WrapRecord.clearLength])
        let associated = prefix.associatedData(.wrapRecord, index: wrap.counter, extra: prefix.encoded + clear)
        do throws(KeyError) {
            try openEmptySeal(Array(wrapBytes[WrapRecord.clearLength...]), under: headKey, associated: associated)
        } catch {
            throw .damaged(.wrapRecord, reason: "authentication failed")
        }
        try content.authenticate(in: prefix, under: headKey)
    }

    /// Whether these bytes belong to a protected file, intact or not: such a file is never taken for plaintext.
    ///
    /// - Parameters:
    ///   - start: the first 4,096 bytes of the file, or fewer if it is shorter.
    ///   - second: the 8 bytes at offset 4,096, or fewer.
    public static func looksLikeOurs(start: [UInt8], second: [UInt8]) throws(KeyError) -> Bool {
        if start.isEmpty { return false }
        if start.starts(with: Prefix.magic) || second.starts(with: Prefix.magic) { return true }
        if start.count < Prefix.magic.count { return Prefix.magic.starts(with: start) }
        guard start.count == length else { return false }
        return try isGood(Prefix.magic + start.dropFirst(Prefix.magic.count))
    }
}

/// The plaintext of a small file, sealed into its head. FORMAT.md §3.5 kind 3.
public enum InlineFile {
    /// Seals up to 3,584 bytes for the content record of that counter.
    public static func seal(
        _ text: UnsafeRawBufferPointer, counter: UInt64, in prefix: Prefix, under headKey: borrowing SecretBytes
    ) throws(KeyError) -> [UInt8] {
        var sealer = try Sealer(key: headKey)
        let nonce = try Randomness.bytes(12)
        var sealed = [UInt8](repeating: 0, count: text.count + ChunkLayout.overhead)
        try nonce.lendBytes { nonce throws(KeyError) in
            try prefix.associatedData(.inlineFile, index: counter).lendBytes { associated throws(KeyError) in
                try sealed.lendMutableBytes { sealed throws(KeyError) in
                    try sealer.seal(text, nonce: nonce, associated: associated, into: sealed)
                }
            }
        }
        return sealed
    }

    /// Opens into `output`, which has 28 bytes less.
    ///
    /// - Throws: `damaged(.inlineFile)`.
    public static func open(
        _ sealed: [UInt8], counter: UInt64, in prefix: Prefix, under headKey: borrowing SecretBytes,
        into output: UnsafeMutableRawBufferPointer
    ) throws(FormatError) {
        do {
            var opener = try Opener(key: headKey)
            try sealed.lendBytes { sealed throws(KeyError) in
                try prefix.associatedData(.inlineFile, index: counter).lendBytes { associated throws(KeyError) in
                    try opener.open(sealed, associated: associated, into: output)
                }
            }
        } catch {
            throw .damaged(.inlineFile, reason: "authentication failed")
        }
    }
}
