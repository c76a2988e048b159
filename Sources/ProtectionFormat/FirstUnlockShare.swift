import ProtectionKeys

/// What one first-unlock secret opens of one generation of class keys: an entry of kind 4. FORMAT.md §2.20, 200 bytes.
public struct FirstUnlockShare: Hashable, Sendable {
    /// Which secret of the keybag: 1 to 255.
    public let number: UInt8
    /// Of the class keys.
    public let generation: UInt32
    /// 16 bytes: ``FirstUnlockSecret/id(for:)``.
    public let id: [UInt8]
    /// Class key C of files: 40 bytes; nil if this generation has none (any more).
    public let files: WrappedKey?
    /// Class key C of secrets, likewise.
    public let secrets: WrappedKey?
    /// What people call the secret: ``isUsable(_:)``.
    public let name: String
    /// 32 bytes over ``message(in:)``.
    public var mac: [UInt8]

    /// The longest name, in bytes.
    public static let longestName = 64
    fileprivate static let kind: UInt8 = 4
    private static let macStart = 168
    /// The bytes of an entry that say which key it is, its state included.
    private static let identityLength = 24

    /// A share to be stored, without its MAC.
    public init(
        number: UInt8, generation: UInt32, id: [UInt8], files: WrappedKey?, secrets: WrappedKey?, name: String
    ) {
        self.number = number
        self.generation = generation
        self.id = id
        self.files = files
        self.secrets = secrets
        self.name = name
        mac = [UInt8](repeating: 0, count: 32)
    }

    /// Nil for an entry of another kind, and for one of this kind that this version does not understand.
    public init?(_ entry: ClassKeyEntry) {
        guard entry.kind == Self.kind, entry.state == .active, entry.rawClass > 0 else { return nil }
        let bytes = entry.encoded
        let name = String(validating: bytes[104..<Self.macStart].prefix { $0 != 0 }, as: UTF8.self)
        guard let name, Self.isUsable(name), bytes[104 + name.utf8.count..<Self.macStart].allSatisfy({ $0 == 0 }) else {
            return nil
        }
        number = entry.rawClass
        generation = entry.generation
        id = entry.id
        func wrapped(_ range: Range<Int>) -> WrappedKey? {
            let bytes = Array(bytes[range])
            return bytes.contains { $0 != 0 } ? WrappedKey(bytes: bytes) : nil
        }
        files = wrapped(24..<64)
        secrets = wrapped(64..<104)
        self.name = name
        mac = Array(bytes[Self.macStart...])
    }

    /// Whether a secret can have this name: 1 to 64 bytes of UTF-8, without what a terminal would obey: control and formatting characters, and
    /// separators of lines and paragraphs. U+FFFD stands for bytes that are no UTF-8.
    public static func isUsable(_ name: String) -> Bool {
        let refused: Set<Unicode.GeneralCategory> = [.control, .format, .lineSeparator, .paragraphSeparator]
        return (1...longestName).contains(name.utf8.count)
            && name.unicodeScalars.allSatisfy { $0 != "\u{FFFD}" && !refused.contains($0.properties.generalCategory) }
    }

    /// As it is stored.
    public var entry: ClassKeyEntry {
        var reader = ByteReader(encoded, layer: .keybag)
        return try! ClassKeyEntry(decoding: &reader)  // 200 bytes, of a kind whose contents are not looked at
    }

    private var encoded: [UInt8] {
        var bytes: [UInt8] = [Self.kind, number, ClassKeyEntry.State.active.rawValue, 0]
        bytes.append(littleEndian: generation)
        let none = [UInt8](repeating: 0, count: 40)
        bytes += id + (files?.bytes ?? none) + (secrets?.bytes ?? none) + name.utf8
        bytes.pad(to: Self.macStart)
        return bytes + mac
    }

    /// What the MAC is over: the share, and which class keys its generation has.
    public func message(in keybag: KeybagCopy) -> [UInt8] {
        let keys = keybag.usedEntries.filter { $0.generation == generation }
        return keybag.uuid.bytes + encoded.prefix(Self.macStart)
            + keys.flatMap { $0.encoded.prefix(Self.identityLength) }
    }
}

extension KeybagCopy {
    /// The shares of all first-unlock secrets. Those that this version does not understand are kept and not used.
    public var firstUnlockShares: [FirstUnlockShare] { entries.compactMap(FirstUnlockShare.init) }

    /// Removes the shares that `isMeant` says.
    public mutating func removeFirstUnlockShares(where isMeant: (FirstUnlockShare) -> Bool) {
        entries.removeAll { FirstUnlockShare($0).map(isMeant) ?? false }
    }

    /// Removes all of them, those that this version does not understand too: none may lead to class keys that are made now.
    public mutating func removeFirstUnlockShares() { entries.removeAll { $0.kind == FirstUnlockShare.kind } }

    /// Whether these are shares of all class keys C that the keybag has. It may have more of them since a version rotated that knows no shares.
    public func isComplete(_ shares: [FirstUnlockShare]) -> Bool {
        firstUnlockGenerations.isSubset(of: shares.map(\.generation))
    }

    /// The generations of which there is a class key C, of files or of secrets.
    package var firstUnlockGenerations: Set<UInt32> {
        let names = usedEntries.compactMap(name)
        return Set(names.filter { $0.protectionClass == .completeUntilFirstUserAuthentication }.map(\.generation))
    }
}
