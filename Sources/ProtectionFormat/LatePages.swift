import ProtectionKeys

/// The file that keeps data of shared mappings which the kernel delivers after a lock. FORMAT.md §2.8.
///
///     offset  bytes   field
///     0       8       magic `PFSLATES`
///     8       16      salt
///     24      8       content counter of the file
///     32              records:
///
///     0       8       offset in the file's plaintext
///     8       4       L: 1 to 2^20
///     12      L + 28  SEAL(late pages key, AAD(6, number of the record, salt ‖ content counter ‖ offset ‖ L), L bytes)
///
/// The key comes from the head key and leads to no other key, so the pages can be sealed after a lock, and only somebody who could open the
/// file before it can have sealed them.
public struct LatePages: Hashable, Sendable {
    /// The file whose pages they are.
    public let prefix: Prefix
    /// 16 bytes, of the key.
    public let salt: [UInt8]
    /// Of the state of the file that the pages were stored over.
    public let counter: UInt64

    /// Bytes of ``salt``.
    public static let saltLength = 16
    /// Bytes before the records.
    public static let headerLength = 32
    /// Bytes of a record before its sealed bytes.
    public static let recordHeaderLength = 12
    /// Plaintext bytes of a record, at most.
    public static let longest = 1 << 20
    static let magic = Array("PFSLATES".utf8)

    /// - Parameter salt: 16 bytes.
    public init(of prefix: Prefix, salt: [UInt8], counter: UInt64) {
        (self.prefix, self.salt, self.counter) = (prefix, salt, counter)
    }

    /// Decodes the first 32 bytes; nil if they are no such header.
    public init?(of prefix: Prefix, decoding bytes: [UInt8]) {
        var reader = ByteReader(bytes, to: Self.headerLength, layer: .latePages)
        guard let magic = try? reader.take(8), magic == Self.magic, let salt = try? reader.take(Self.saltLength),
            let counter = try? reader.integer(UInt64.self)
        else { return nil }
        self.init(of: prefix, salt: salt, counter: counter)
    }

    /// The first 32 bytes.
    public var encoded: [UInt8] {
        var bytes = Self.magic + salt
        bytes.append(littleEndian: counter)
        return bytes
    }

    /// A record.
    ///
    /// - Parameters:
    ///   - bytes: 1 to 2^20 plaintext bytes.
    ///   - offset: where they are in the file's plaintext.
    ///   - number: of the record, from 0.
    ///   - key: ``FileKey/latePagesKey(of:headKey:salt:)``.
    public func record(
        _ bytes: UnsafeRawBufferPointer, at offset: UInt64, number: UInt64, under key: borrowing SecretBytes
    ) throws(KeyError) -> [UInt8] {
        var sealer = try Sealer(key: key)
        let nonce = try Randomness.bytes(12)
        var record = Self.recordHeader(offset, bytes.count)
        let associated = associated(number, record)
        record.append(contentsOf: repeatElement(0, count: bytes.count + ChunkLayout.overhead))
        try nonce.lendBytes { nonce throws(KeyError) in
            try associated.lendBytes { associated throws(KeyError) in
                try record.lendMutableBytes { record throws(KeyError) in
                    try sealer.seal(
                        bytes, nonce: nonce, associated: associated,
                        into: UnsafeMutableRawBufferPointer(rebasing: record[Self.recordHeaderLength...]))
                }
            }
        }
        return record
    }

    /// What the first 12 bytes of a record say; nil if no record begins so.
    public static func record(decoding bytes: [UInt8]) -> (offset: UInt64, count: Int)? {
        var reader = ByteReader(bytes, to: recordHeaderLength, layer: .latePages)
        guard let offset = try? reader.integer(UInt64.self), let count = try? reader.integer(UInt32.self),
            (1...longest).contains(Int(count)), offset <= UInt64(Int64.max) - UInt64(count)
        else { return nil }
        return (offset, Int(count))
    }

    /// Opens the sealed bytes of a record.
    ///
    /// - Parameters:
    ///   - sealed: what follows the first 12 bytes of the record.
    ///   - record: what those 12 say; `output` has as many bytes.
    /// - Throws: `authenticationFailed`; `output` is then zero.
    public func open(
        _ sealed: [UInt8], of record: (offset: UInt64, count: Int), number: UInt64, under key: borrowing SecretBytes,
        into output: UnsafeMutableRawBufferPointer
    ) throws(KeyError) {
        var opener = try Opener(key: key)
        let associated = associated(number, Self.recordHeader(record.offset, record.count))
        try sealed.lendBytes { sealed throws(KeyError) in
            try associated.lendBytes { associated throws(KeyError) in
                try opener.open(sealed, associated: associated, into: output)
            }
        }
    }

    private static func recordHeader(_ offset: UInt64, _ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: offset)
        bytes.append(littleEndian: UInt32(count))
        return bytes
    }

    private func associated(_ number: UInt64, _ record: [UInt8]) -> [UInt8] {
        var extra = salt
        extra.append(littleEndian: counter)
        return prefix.associatedData(.latePage, index: number, extra: extra + record)
    }
}
