import ProtectionKeys

/// The class keys of a backup, under a passphrase alone. FORMAT.md §2.16.
///
///     offset       bytes  field
///     0            8      magic `PFSBACKP`
///     8            2      version: 1
///     10           2      incompatible features: 0
///     12           4      length
///     16           16     keybag UUID
///     32           8      made, seconds since 1970
///     40           1      PRF: 1
///     41           1      zero
///     42           2      e: number of entries
///     44           4      PBKDF2 iterations
///     48           32     salt
///     80           40     wrapped backup key
///     120          8      zero
///     128          64·e   entries
///     length − 64  32     MAC under the backup MAC key
///     length − 32  32     SHA-256: the keyless check
public struct BackupKeybag: Hashable, Sendable {
    /// The keybag whose class keys these are.
    public let uuid: KeybagUUID
    /// Seconds since 1970; a hint.
    public let made: UInt64
    /// PBKDF2 iterations, 1,000 to 100,000,000.
    public let iterations: Int
    /// 32 bytes.
    public let salt: [UInt8]
    /// The backup key under the passphrase's key: 40 bytes.
    public let wrapped: WrappedKey
    /// All class keys, those of unknown kinds included.
    public let entries: [BackupEntry]

    /// What a reader accepts, so that a crafted backup can neither weaken nor hang it.
    public static let readableIterations = KeybagSlot.readableIterations
    /// What is written at least: who has a backup tries as many passphrases as they like, without any device key.
    public static let leastIterations = 10_000_000
    /// The most class keys that it holds.
    public static let maximumEntryCount = 1000
    /// The longest one, in bytes.
    public static let maximumLength =
        headerLength + BackupEntry.length * maximumEntryCount + KeybagEnvelope.trailerLength
    /// What it begins with.
    public static let magic = Array("PFSBACKP".utf8)
    private static let headerLength = 128

    /// A backup keybag that is not stored yet.
    public init(
        uuid: KeybagUUID, made: UInt64, iterations: Int, salt: [UInt8], wrapped: WrappedKey, entries: [BackupEntry]
    ) {
        self.uuid = uuid
        self.made = made
        self.iterations = iterations
        self.salt = salt
        self.wrapped = wrapped
        self.entries = entries
    }

    /// Decodes one and checks everything that needs no key.
    ///
    /// - Throws: `damaged(.backupKeybag)`, or `unsupported` for another version, feature, PRF or class.
    public init(decoding bytes: [UInt8]) throws(FormatError) {
        var reader = ByteReader(bytes, layer: .backupKeybag)
        try reader.require(bytes.count <= Self.maximumLength, "longer than \(Self.maximumLength) bytes")
        let length = try KeybagEnvelope.open(
            bytes, &reader, magic: Self.magic, orElse: "no magic of a backup keybag", header: Self.headerLength,
            what: "backup keybag")
        let uuid = try reader.take(16)
        self.uuid = try! KeybagUUID(bytes: uuid)  // 16 bytes were taken
        made = try reader.integer(UInt64.self)
        try reader.require(made < UInt64(1) << 63, "time")
        guard try reader.integer(UInt8.self) == 1 else { throw .unsupported(what: "backup keybag PRF") }
        try reader.zero(1)
        let count = Int(try reader.integer(UInt16.self))
        try reader.require((1...Self.maximumEntryCount).contains(count), "number of entries")
        iterations = Int(try reader.integer(UInt32.self))
        try reader.require(Self.readableIterations.contains(iterations), "PBKDF2 iterations: \(iterations)")
        salt = try reader.take(32)
        wrapped = WrappedKey(bytes: try reader.take(40))
        try reader.zero(8)
        try reader.require(length == Self.length(entries: count), "length")
        var entries: [BackupEntry] = []
        for _ in 0..<count { entries.append(try BackupEntry(decoding: &reader)) }
        let names = Set(entries.map { [UInt8]($0.encoded.prefix(24)) })
        try reader.require(names.count == entries.count, "one key twice")
        self.entries = entries
    }

    private static func length(entries: Int) -> Int {
        headerLength + BackupEntry.length * entries + KeybagEnvelope.trailerLength
    }

    private var clear: [UInt8] {
        var bytes = KeybagEnvelope.beginning(magic: Self.magic, length: Self.length(entries: entries.count))
        bytes += uuid.bytes
        bytes.append(littleEndian: made)
        bytes += [1, 0]
        bytes.append(littleEndian: UInt16(entries.count))
        bytes.append(littleEndian: UInt32(iterations))
        bytes += salt + wrapped.bytes
        bytes.pad(to: Self.headerLength)
        for entry in entries { bytes += entry.encoded }
        return bytes
    }

    /// The stored form.
    public func encoded(under key: borrowing BackupKey) throws(KeyError) -> [UInt8] {
        try KeybagEnvelope.closed(clear, under: key.macKey())
    }

    /// Whether the MAC of the stored form `bytes` is good.
    public static func isMACGood(_ bytes: [UInt8], under key: borrowing BackupKey) throws(KeyError) -> Bool {
        try KeybagEnvelope.isMACGood(bytes, under: key.macKey())
    }

    /// Whether it has that very class key. The id tells two keys of one name apart.
    public func holds(_ entry: ClassKeyEntry) -> Bool {
        entries.contains {
            $0.kind == entry.kind && $0.rawClass == entry.rawClass && $0.generation == entry.generation
                && $0.id == entry.id
        }
    }

    /// The keys of that name: several where a keybag was put back and rotated again.
    public func entries(of name: ClassKeyName) -> [BackupEntry] {
        guard name.keybag == uuid else { return [] }
        return entries.filter { $0.name(in: uuid) == name }
    }
}

/// One class key of a backup. FORMAT.md §2.16, 64 bytes.
public struct BackupEntry: Hashable, Sendable {
    /// As in ``ClassKeyEntry/kind``.
    public let kind: UInt8
    /// The class number.
    public let rawClass: UInt8
    /// From 1.
    public let generation: UInt32
    /// 16 bytes: what the key must have.
    public let id: [UInt8]
    /// The key under the backup key: 40 bytes.
    public let wrapped: WrappedKey

    static let length = 64

    /// The key of a keybag's entry, wrapped anew.
    public init(_ entry: ClassKeyEntry, wrapped: WrappedKey) {
        self.init(
            kind: entry.kind, rawClass: entry.rawClass, generation: entry.generation, id: entry.id, wrapped: wrapped)
    }

    /// The same key, wrapped anew.
    public func with(_ wrapped: WrappedKey) -> BackupEntry {
        BackupEntry(kind: kind, rawClass: rawClass, generation: generation, id: id, wrapped: wrapped)
    }

    private init(kind: UInt8, rawClass: UInt8, generation: UInt32, id: [UInt8], wrapped: WrappedKey) {
        self.kind = kind
        self.rawClass = rawClass
        self.generation = generation
        self.id = id
        self.wrapped = wrapped
    }

    init(decoding reader: inout ByteReader) throws(FormatError) {
        kind = try reader.integer(UInt8.self)
        rawClass = try reader.integer(UInt8.self)
        try reader.zero(2)
        generation = try reader.integer(UInt32.self)
        try reader.require(generation >= 1, "generation of a class key")
        id = try reader.take(16)
        wrapped = WrappedKey(bytes: try reader.take(40))
        if let known = ClassKeyKind(rawValue: kind), !known.classes.contains(where: { $0.rawValue == rawClass }) {
            throw .unsupported(what: "class \(rawClass) in the backup keybag")
        }
    }

    /// Which key it is; nil for a kind that is kept and not used.
    public func name(in keybag: KeybagUUID) -> ClassKeyName? {
        guard let kind = ClassKeyKind(rawValue: kind), let protectionClass = ProtectionClass(rawValue: rawClass) else {
            return nil
        }
        return ClassKeyName(keybag: keybag, kind: kind, protectionClass: protectionClass, generation: generation)
    }

    var encoded: [UInt8] {
        var bytes: [UInt8] = [kind, rawClass, 0, 0]
        bytes.append(littleEndian: generation)
        return bytes + id + wrapped.bytes
    }
}
