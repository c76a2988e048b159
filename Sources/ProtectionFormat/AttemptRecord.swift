import ProtectionKeys

/// One sector of `attempts`: how often the passcode was wrong. FORMAT.md §2.3, 512 bytes.
public struct AttemptRecord: Hashable, Sendable {
    /// Higher is newer; below 2^62.
    public var sequence: UInt64
    /// Whose attempts.
    public let keybag: KeybagUUID
    /// Since the last success.
    public var failures: UInt32
    /// 16 bits of a MAC of the last wrong passcode, under a key that is in the kernel keyring alone.
    public var guessTag: UInt16?
    /// CLOCK_BOOTTIME of the last attempt, in nanoseconds.
    public var bootTime: UInt64
    /// 16 bytes: the boot that this time belongs to.
    public var bootID: [UInt8]

    /// The bytes of a sector.
    public static let length = 512
    static let magic = Array("PFSTRIES".utf8)

    /// A record to be stored.
    public init(
        sequence: UInt64, keybag: KeybagUUID, failures: UInt32, guessTag: UInt16?, bootTime: UInt64, bootID: [UInt8]
    ) {
        self.sequence = sequence
        self.keybag = keybag
        self.failures = failures
        self.guessTag = guessTag
        self.bootTime = bootTime
        self.bootID = bootID
    }

    /// - Throws: `damaged(.attempts)`.
    public init(decoding bytes: [UInt8]) throws(FormatError) {
        var reader = ByteReader(bytes, layer: .attempts)
        try reader.require(bytes.count == Self.length, "length")
        try reader.require(reader.take(8) == Self.magic, "magic")
        let check = try? Digest.sha256(Array(bytes.dropLast(32)))
        guard let check, check.elementsEqual(bytes.suffix(32)) else { throw .damaged(.attempts, reason: "check") }
        sequence = try reader.integer(UInt64.self)
        try reader.require(sequence < UInt64(1) << 62, "sequence")
        let uuid = try reader.take(16)
        keybag = try! KeybagUUID(bytes: uuid)  // 16 bytes were taken
        failures = try reader.integer(UInt32.self)
        let tag = try reader.integer(UInt16.self)
        let hasTag = try reader.integer(UInt16.self)
        try reader.require(hasTag == 1 || (hasTag == 0 && tag == 0), "guess tag")
        guessTag = hasTag == 1 ? tag : nil
        bootTime = try reader.integer(UInt64.self)
        bootID = try reader.take(16)
        try reader.zero(416)
    }

    /// The stored form: 512 bytes.
    public func encoded() throws(KeyError) -> [UInt8] {
        var bytes = Self.magic
        bytes.append(littleEndian: sequence)
        bytes += keybag.bytes
        bytes.append(littleEndian: failures)
        bytes.append(littleEndian: guessTag ?? 0)
        bytes.append(littleEndian: UInt16(guessTag == nil ? 0 : 1))
        bytes.append(littleEndian: bootTime)
        bytes += bootID
        bytes.pad(to: Self.length - 32)
        return bytes + (try Digest.sha256(bytes))
    }
}
