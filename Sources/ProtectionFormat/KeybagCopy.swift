import ProtectionKeys

/// One of the two copies of a keybag. FORMAT.md §2.1.
///
///     offset       bytes  field
///     0            8      magic `PFSKEYBG`
///     8            2      version: 1
///     10           2      incompatible features: 0
///     12           4      length
///     16           8      sequence
///     24           16     keybag UUID
///     40           16     device id
///     56           2      p: length of the device key's path
///     58           1      s: number of slots
///     59           1      e: number of class-key entries
///     60           4      zero
///     64           p      device key's path
///     64 + p       80·s   slots
///     …            200·e  entries
///     length − 64  32     MAC under the keybag MAC key
///     length − 32  32     SHA-256: the keyless check
public struct KeybagCopy: Hashable, Sendable {
    /// Higher is newer.
    public var sequence: UInt64
    /// Which keybag.
    public let uuid: KeybagUUID
    /// 16 bytes that tell whose device key it needs.
    public var deviceID: [UInt8]
    /// An absolute path, as bytes, at most 4,095.
    public var devicePath: [UInt8]
    /// Passcode and recovery slots.
    public var slots: [KeybagSlot]
    /// All class keys, retired ones and reserved kinds included.
    public var entries: [ClassKeyEntry]

    /// The longest copy, in bytes.
    public static let maximumLength = 65_536
    /// The most class keys that a copy holds.
    public static let maximumEntryCount = 64
    /// What every copy begins with.
    public static let magic = Array("PFSKEYBG".utf8)
    private static let headerLength = 64

    /// A keybag that is not stored yet.
    public init(
        sequence: UInt64, uuid: KeybagUUID, deviceID: [UInt8], devicePath: [UInt8], slots: [KeybagSlot],
        entries: [ClassKeyEntry]
    ) {
        self.sequence = sequence
        self.uuid = uuid
        self.deviceID = deviceID
        self.devicePath = devicePath
        self.slots = slots
        self.entries = entries
    }

    /// Decodes a copy and checks everything that needs no key.
    ///
    /// - Throws: `damaged(.keybag)`, or `unsupported` for another version or feature.
    public init(decoding bytes: [UInt8]) throws(FormatError) {
        var reader = ByteReader(bytes, layer: .keybag)
        try reader.require(bytes.count <= Self.maximumLength, "longer than 64 KiB")
        let length = try KeybagEnvelope.open(
            bytes, &reader, magic: Self.magic, orElse: "no keybag magic", header: Self.headerLength, what: "keybag")
        sequence = try reader.integer(UInt64.self)
        try reader.require(sequence < UInt64(1) << 63, "sequence")
        let uuid = try reader.take(16)
        self.uuid = try! KeybagUUID(bytes: uuid)  // 16 bytes were taken
        deviceID = try reader.take(16)
        let pathLength = Int(try reader.integer(UInt16.self))
        let slotCount = Int(try reader.integer(UInt8.self))
        let entryCount = Int(try reader.integer(UInt8.self))
        try reader.zero(4)
        try reader.require(pathLength <= 4095, "length of the device key's path")
        try reader.require((1...8).contains(slotCount) && (4...Self.maximumEntryCount).contains(entryCount), "counts")
        let expectedLength = Self.length(path: pathLength, slots: slotCount, entries: entryCount)
        try reader.require(length == expectedLength, "length")
        devicePath = try reader.take(pathLength)
        try reader.require(devicePath.first == UInt8(ascii: "/") && !devicePath.contains(0), "device key's path")
        slots = []
        for _ in 0..<slotCount { slots.append(try KeybagSlot(decoding: &reader)) }
        entries = []
        for _ in 0..<entryCount { entries.append(try ClassKeyEntry(decoding: &reader)) }
        let kinds = Set(slots.map(\.kind))
        try reader.require(kinds.count == slots.count, "two slots of one kind")
        for kind in ClassKeyKind.allCases where kind == .files || holds(kind) {
            for protectionClass in kind.classes {
                let active = entries(of: kind).filter { $0.rawClass == protectionClass.rawValue && $0.state == .active }
                try reader.require(active.count == 1, "one active key a class")
            }
        }
        let names = Set(entries.map { [UInt32($0.kind), UInt32($0.rawClass), $0.generation] })
        try reader.require(names.count == entries.count, "two keys of one generation")
    }

    /// The UUID that a copy names which is otherwise damaged; nil if it does not begin as one. To be believed for no more than
    /// messages, and for removing keys.
    public static func uuid(in bytes: [UInt8]) -> KeybagUUID? {
        guard bytes.count >= 40, bytes.starts(with: magic) else { return nil }
        return try? KeybagUUID(bytes: bytes[24..<40])
    }

    /// The entries of one kind.
    public func entries(of kind: ClassKeyKind) -> [ClassKeyEntry] { entries.filter { $0.isOf(kind) } }

    /// Whether there are keys of a kind. Those of secrets are made by the first unlock of a keybag that was made without them.
    public func holds(_ kind: ClassKeyKind) -> Bool { entries.contains { $0.isOf(kind) } }

    /// The entries of all kinds that are known; others are kept and not used.
    public var usedEntries: [ClassKeyEntry] { entries.filter { ClassKeyKind(rawValue: $0.kind) != nil } }

    /// The generation of its newest class keys: 1, and one more for each rotation; 0 if it has none.
    public var newestGeneration: UInt32 { usedEntries.map(\.generation).max() ?? 0 }

    /// The entries of file classes.
    public var fileEntries: [ClassKeyEntry] { entries(of: .files) }

    /// The entry that wraps new files of a class.
    public func active(_ protectionClass: ProtectionClass) -> ClassKeyEntry {
        fileEntries.first { $0.rawClass == protectionClass.rawValue && $0.state == .active }!  // checked when decoded
    }

    /// The name of the key that wraps new files of a class.
    public func activeName(_ protectionClass: ProtectionClass) -> ClassKeyName {
        ClassKeyName(keybag: uuid, protectionClass: protectionClass, generation: active(protectionClass).generation)
    }

    /// The name of the key that wraps new secrets of a class; nil if the keybag has no keys of secrets yet.
    public func activeSecretsName(_ protectionClass: ProtectionClass) -> ClassKeyName? {
        entries(of: .secrets).first { $0.rawClass == protectionClass.rawValue && $0.state == .active }.flatMap(name)
    }

    /// The entry of a class and generation, or nil if the keybag has none (any more).
    public func entry(of name: ClassKeyName) -> ClassKeyEntry? {
        entries.first {
            $0.isOf(name.kind) && $0.rawClass == name.protectionClass.rawValue && $0.generation == name.generation
        }
    }

    /// The name of an entry's key in this keybag; nil for kinds that are not used.
    public func name(of entry: ClassKeyEntry) -> ClassKeyName? {
        guard let kind = ClassKeyKind(rawValue: entry.kind), let known = ProtectionClass(rawValue: entry.rawClass)
        else {
            return nil
        }
        return ClassKeyName(keybag: uuid, kind: kind, protectionClass: known, generation: entry.generation)
    }

    /// The slot of a kind.
    public func slot(_ kind: KeybagSlot.Kind) -> KeybagSlot? { slots.first { $0.kind == kind } }

    private static func length(path: Int, slots: Int, entries: Int) -> Int {
        headerLength + path + KeybagSlot.length * slots + ClassKeyEntry.length * entries + KeybagEnvelope.trailerLength
    }

    private var clear: [UInt8] {
        let length = Self.length(path: devicePath.count, slots: slots.count, entries: entries.count)
        var bytes = KeybagEnvelope.beginning(magic: Self.magic, length: length)
        bytes.append(littleEndian: sequence)
        bytes += uuid.bytes
        bytes += deviceID
        bytes.append(littleEndian: UInt16(devicePath.count))
        bytes += [UInt8(slots.count), UInt8(entries.count)]
        bytes.pad(to: Self.headerLength)
        bytes += devicePath
        for slot in slots { bytes += slot.encoded }
        for entry in entries { bytes += entry.encoded }
        return bytes
    }

    /// The stored form.
    public func encoded(under key: borrowing KeybagKey) throws(KeyError) -> [UInt8] {
        try KeybagEnvelope.closed(clear, under: key.macKey())
    }

    /// Whether the MAC of the stored form `bytes` is good.
    public static func isMACGood(_ bytes: [UInt8], under key: borrowing KeybagKey) throws(KeyError) -> Bool {
        try KeybagEnvelope.isMACGood(bytes, under: key.macKey())
    }
}
