/// `transition`: the order of locks and the deadline of an armed one. FORMAT.md §2.4, 64 bytes.
public struct TransitionRecord: Hashable, Sendable {
    /// Every lock raises it.
    public var counter: UInt64 = 0
    /// When an armed lock is due: CLOCK_BOOTTIME in nanoseconds; 0 = none is armed.
    public var deadline: UInt64 = 0
    /// When a limited unlock ends, likewise; 0 = it is not limited.
    public var limit: UInt64 = 0
    /// 16 bytes: the boot that both belong to.
    public var bootID = [UInt8](repeating: 0, count: 16)
    /// Seconds since 1970 of the last transition.
    public var changedAt: UInt64 = 0

    /// The bytes of the file.
    public static let length = 64
    /// The bytes up to the end of the counter, and with them all that a lock writes without the flock.
    public static let counterEnd = 16
    static let magic = Array("PFSTRANS".utf8)

    /// Nothing has happened yet.
    public init() {}

    /// A record in the place of one that is missing or damaged. Its counter is one that nobody has seen before, and higher than earlier ones
    /// unless the clock was set back: an unlock that began under any other one loads nothing.
    ///
    /// - Parameters:
    ///   - seconds: now, in seconds since 1970. Only the low 33 bits count.
    ///   - random: a random number. Only the low 31 bits count.
    public init(beginningAnewAt seconds: UInt64, random: UInt64) {
        counter = seconds << 31 | random & 0x7FFF_FFFF
    }

    /// What the file says; one that is damaged says nothing.
    public init(decoding bytes: [UInt8]) { self = Self(validating: bytes) ?? Self() }

    /// What the file says; nil if the bytes break a rule of FORMAT.md §2.4.
    public init?(validating bytes: [UInt8]) {
        var reader = ByteReader(bytes, layer: .keybag)
        guard bytes.count == Self.length, (try? reader.take(8)) == Self.magic,
            let counter = try? reader.integer(UInt64.self), let deadline = try? reader.integer(UInt64.self),
            let bootID = try? reader.take(16), let changedAt = try? reader.integer(UInt64.self),
            let limit = try? reader.integer(UInt64.self), (try? reader.zero(8)) != nil
        else { return nil }
        self.counter = counter
        self.deadline = deadline
        self.bootID = bootID
        self.changedAt = changedAt
        self.limit = limit
    }

    /// The stored form.
    public var encoded: [UInt8] {
        var bytes = Self.magic
        bytes.append(littleEndian: counter)
        bytes.append(littleEndian: deadline)
        bytes += bootID
        bytes.append(littleEndian: changedAt)
        bytes.append(littleEndian: limit)
        bytes.pad(to: Self.length)
        return bytes
    }
}
