import ProtectionKeys

/// `run/state`: the last thing that happened to the class keys, for processes that wait for it. FORMAT.md §2.12, 96 bytes.
///
/// A hint that wakes: the ring says what is so.
public struct EventRecord: Hashable, Sendable {
    /// What happened to class keys A and B private.
    public enum Kind: UInt8, Sendable {
        /// A lock is armed.
        case willBecomeUnavailable = 1
        /// They were evicted.
        case didBecomeUnavailable = 2
        /// They were loaded, or an armed lock was cancelled.
        case didBecomeAvailable = 3
    }

    /// What happened.
    public let kind: Kind
    /// To whose keys.
    public let keybag: KeybagUUID
    /// The counter of `transition` (§2.4) at that moment.
    public let counter: UInt64
    /// When the keys go, CLOCK_BOOTTIME in nanoseconds: that of an armed lock or the end of a limited unlock; 0 = not known to.
    public let deadline: UInt64
    /// 16 bytes: the boot that the deadline belongs to.
    public let bootID: [UInt8]

    /// The bytes of the file.
    public static let length = 96
    private static let magic = Array("PFSEVENT".utf8)

    /// A record to be stored.
    public init(kind: Kind, keybag: KeybagUUID, counter: UInt64, deadline: UInt64, bootID: [UInt8]) {
        self.kind = kind
        self.keybag = keybag
        self.counter = counter
        self.deadline = deadline
        self.bootID = bootID
    }

    /// What the file says; nil: nothing that could be understood, which is no error.
    public init?(decoding bytes: [UInt8]) {
        var reader = ByteReader(bytes, layer: .keybag)
        guard bytes.count == Self.length, (try? reader.take(8)) == Self.magic,
            let check = try? Digest.sha256(Array(bytes.dropLast(32))), check.elementsEqual(bytes.suffix(32)),
            let kind = (try? reader.integer(UInt8.self)).flatMap(Kind.init), (try? reader.zero(7)) != nil,
            let name = try? reader.take(16), let keybag = try? KeybagUUID(bytes: name),
            let counter = try? reader.integer(UInt64.self), let deadline = try? reader.integer(UInt64.self),
            let bootID = try? reader.take(16)
        else { return nil }
        self.init(kind: kind, keybag: keybag, counter: counter, deadline: deadline, bootID: bootID)
    }

    /// The stored form: 96 bytes.
    public func encoded() throws(KeyError) -> [UInt8] {
        var bytes = Self.magic
        bytes.append(kind.rawValue)
        bytes.appendZero(7)
        bytes += keybag.bytes
        bytes.append(littleEndian: counter)
        bytes.append(littleEndian: deadline)
        bytes += bootID
        return bytes + (try Digest.sha256(bytes))
    }
}
