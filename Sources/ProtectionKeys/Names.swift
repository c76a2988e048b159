/// The 16 bytes that name a keybag. Not secret.
public struct KeybagUUID: Hashable, Sendable, CustomStringConvertible {
    /// 16 bytes.
    public let bytes: [UInt8]

    /// - Throws: ``KeyError/wrongLength(of:expected:actual:)`` unless there are 16 bytes.
    public init(bytes: some Sequence<UInt8>) throws(KeyError) {
        self.bytes = try sixteen(bytes, "keybag UUID")
    }

    /// A random version 4 UUID (RFC 9562 §5.4).
    public static func random() throws(KeyError) -> KeybagUUID {
        var bytes = try Randomness.bytes(16)
        bytes[6] = bytes[6] & 0x0F | 0x40
        bytes[8] = bytes[8] & 0x3F | 0x80
        return try KeybagUUID(bytes: bytes)
    }

    /// The UUID in lower case with four hyphens.
    public var description: String {
        var text = ""
        for (index, byte) in bytes.enumerated() {
            if [4, 6, 8, 10].contains(index) { text += "-" }
            text += (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
        return text
    }
}

/// The 16 random bytes that name a protected file in everything sealed under its keys. Not secret.
public struct FileID: Hashable, Sendable {
    /// 16 bytes.
    public let bytes: [UInt8]

    /// - Throws: ``KeyError/wrongLength(of:expected:actual:)`` unless there are 16 bytes.
    public init(bytes: some Sequence<UInt8>) throws(KeyError) {
        self.bytes = try sixteen(bytes, "file id")
    }

    /// 16 random bytes.
    public static func random() throws(KeyError) -> FileID { try FileID(bytes: Randomness.bytes(16)) }
}

/// What class keys of one kind wrap. FORMAT.md §2.1, the kind of an entry.
public enum ClassKeyKind: UInt8, Sendable, Hashable, CaseIterable {
    /// The keys of files.
    case files = 0
    /// The keys of secrets: classes `complete` (while unlocked) and `completeUntilFirstUserAuthentication` only.
    case secrets = 1

    /// The classes of which there is a key of this kind.
    public var classes: [ProtectionClass] {
        switch self {
        case .files: ProtectionClass.allCases
        case .secrets: [.complete, .completeUntilFirstUserAuthentication]
        }
    }
}

/// Which class key: kind, class and generation within one keybag.
public struct ClassKeyName: Hashable, Sendable {
    /// The keybag that holds the key.
    public let keybag: KeybagUUID
    /// What it wraps.
    public let kind: ClassKeyKind
    /// The class whose keys it wraps.
    public let protectionClass: ProtectionClass
    /// From 1; rotation adds one.
    public let generation: UInt32

    /// Names the key of `protectionClass` and `generation` in `keybag`.
    public init(
        keybag: KeybagUUID, kind: ClassKeyKind = .files, protectionClass: ProtectionClass, generation: UInt32
    ) {
        self.keybag = keybag
        self.kind = kind
        self.protectionClass = protectionClass
        self.generation = generation
    }

    /// Class byte ‖ generation: `C‖g` of FORMAT.md §1.1. The class byte of another kind than files is 16 · kind + class.
    public var classAndGeneration: [UInt8] {
        [kind.rawValue << 4 | protectionClass.rawValue]
            + (0..<4).map { UInt8(truncatingIfNeeded: generation >> (8 * $0)) }
    }

    var context: [UInt8] { keybag.bytes + classAndGeneration }
}

private func sixteen(_ bytes: some Sequence<UInt8>, _ what: String) throws(KeyError) -> [UInt8] {
    let bytes = Array(bytes)
    guard bytes.count == 16 else { throw .wrongLength(of: what, expected: 16, actual: bytes.count) }
    return bytes
}
