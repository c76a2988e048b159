import ProtectionKeys

/// Which hardware takes part in opening the passcode slot: an entry of kind 3. FORMAT.md §2.21, 200 bytes.
///
///     offset  bytes  field
///     0       1      kind: 3
///     1       1      class: 1 an NV index of a TPM 2.0; 2 is for FIDO2
///     2       1      state: 1 active, 2 stale
///     3       1      zero
///     4       4      number, from 1
///     8       16     share id
///     24      40     WRAP(class-wrapping key, hardware secret)
///     64      2      version: 1
///     66      2      flags: 0
///     68      4      NV index
///     72      32     Name of the storage root key, without its algorithm
///     104     32     Name of the NV index, without its algorithm
///     136     32     salt of the passcode slot that it belongs to
///     168     32     zero
public struct HardwareShare: Hashable, Sendable {
    /// One entry for each number.
    public let number: UInt32
    /// 16 random bytes.
    public let id: [UInt8]
    /// The hardware secret under the class-wrapping key: 40 bytes.
    public let wrapped: WrappedKey
    /// The NV index.
    public let index: UInt32
    /// SHA-256 of the public area of the storage root key: 32 bytes.
    public let root: [UInt8]
    /// SHA-256 of the public area of the NV index: 32 bytes.
    public let name: [UInt8]
    /// Of the passcode slot: 32 bytes. With another salt in that slot the share says nothing.
    public let salt: [UInt8]

    fileprivate static let kind: UInt8 = 3
    private static let trustedModule: UInt8 = 1
    private static let version: UInt16 = 1
    fileprivate static let saltRange = 136..<168

    /// A share to be stored.
    public init(
        number: UInt32, id: [UInt8], wrapped: WrappedKey, index: UInt32, root: [UInt8], name: [UInt8], salt: [UInt8]
    ) {
        self.number = number
        self.id = id
        self.wrapped = wrapped
        self.index = index
        self.root = root
        self.name = name
        self.salt = salt
    }

    /// Nil for an entry of another kind, a stale one, and one of this kind that this version does not understand.
    public init?(_ entry: ClassKeyEntry) {
        guard entry.kind == Self.kind, entry.rawClass == Self.trustedModule, entry.state == .active else { return nil }
        var reader = ByteReader(entry.encoded, from: 64, layer: .keybag)
        do throws(FormatError) {
            guard try reader.integer(UInt16.self) == Self.version, try reader.integer(UInt16.self) == 0 else {
                return nil
            }
            index = try reader.integer(UInt32.self)
            root = try reader.take(32)
            name = try reader.take(32)
            salt = try reader.take(32)
            try reader.zero(32)
        } catch { return nil }
        (number, id, wrapped) = (entry.generation, entry.id, entry.wrapped)
    }

    /// As it is stored.
    public var entry: ClassKeyEntry {
        var bytes: [UInt8] = [Self.kind, Self.trustedModule, ClassKeyEntry.State.active.rawValue, 0]
        bytes.append(littleEndian: number)
        bytes += id + wrapped.bytes
        bytes.append(littleEndian: Self.version)
        bytes.append(littleEndian: UInt16(0))
        bytes.append(littleEndian: index)
        bytes += root + name + salt
        bytes.pad(to: ClassKeyEntry.length)
        var reader = ByteReader(bytes, layer: .keybag)
        return try! ClassKeyEntry(decoding: &reader)  // 200 bytes, of a kind whose contents are not looked at
    }

    /// What the index has as its label: 32 bytes, half of it the keybag's, half the share's. It has the place of a policy, and is part of the
    /// index's Name: an older copy of the keybag is told from an index that somebody has destroyed. FORMAT.md §2.21.
    public static func label(of share: [UInt8], in keybag: KeybagUUID) throws(KeyError) -> [UInt8] {
        try labelPrefix(of: keybag) + share
    }

    /// The first 16 bytes of the labels of all shares of a keybag.
    public static func labelPrefix(of keybag: KeybagUUID) throws(KeyError) -> [UInt8] {
        Array(try Digest.sha256(Array("protectfs/1 hardware label".utf8) + [0] + keybag.bytes).prefix(16))
    }
}

extension KeybagCopy {
    /// The share that takes part in opening the passcode slot; nil if that opens with the passcode alone.
    ///
    /// - Throws: `unsupported` if hardware takes part that this version does not know.
    public func hardwareShare() throws(FormatError) -> HardwareShare? {
        guard let slot = slot(.passcode) else { return nil }
        let entry = entries.first { entry in
            entry.kind == HardwareShare.kind && entry.state == .active
                && Array(entry.encoded[HardwareShare.saltRange]) == slot.salt
        }
        guard let entry else { return nil }
        guard let share = HardwareShare(entry) else { throw .unsupported(what: "hardware that the keybag is bound to") }
        return share
    }

    /// All shares that this version understands, those that take part in nothing included.
    public var hardwareShares: [HardwareShare] { entries.compactMap(HardwareShare.init) }

    /// Removes all shares that this version understands: for a passcode slot that has a new one, or none. Others are kept, as any entry of a
    /// reserved kind; with a new salt in the slot they say nothing.
    public mutating func removeHardwareShares() { entries.removeAll { HardwareShare($0) != nil } }

    /// A number that no share has had that is still there.
    public var nextHardwareNumber: UInt32 {
        let numbers = entries.filter { $0.kind == HardwareShare.kind }.map(\.generation)
        return numbers.max().map { $0 == .max ? 1 : $0 + 1 } ?? 1
    }
}
