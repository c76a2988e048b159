import ProtectionKeys

/// One way to the keybag key. FORMAT.md §2.1, 80 bytes.
public struct KeybagSlot: Hashable, Sendable {
    /// What opens the slot.
    public enum Kind: UInt8, Sendable {
        case passcode = 1
        case recoveryCode = 2
    }

    /// What opens it.
    public let kind: Kind
    /// PBKDF2 iterations, 1,000 to 100,000,000.
    public let iterations: Int
    /// 32 bytes.
    public let salt: [UInt8]
    /// The keybag key: 40 bytes.
    public let wrapped: WrappedKey

    /// What a reader accepts, so that a crafted keybag can neither weaken nor hang it.
    public static let readableIterations = 1_000...100_000_000
    /// What is written at least.
    public static let leastIterations = 600_000
    static let length = 80

    /// A slot to be stored.
    public init(kind: Kind, iterations: Int, salt: [UInt8], wrapped: WrappedKey) {
        self.kind = kind
        self.iterations = iterations
        self.salt = salt
        self.wrapped = wrapped
    }

    init(decoding reader: inout ByteReader) throws(FormatError) {
        guard let kind = Kind(rawValue: try reader.integer(UInt8.self)) else {
            throw .unsupported(what: "keybag slot kind")
        }
        guard try reader.integer(UInt8.self) == 1 else { throw .unsupported(what: "keybag PRF") }
        try reader.zero(2)
        self.kind = kind
        iterations = Int(try reader.integer(UInt32.self))
        try reader.require(Self.readableIterations.contains(iterations), "PBKDF2 iterations: \(iterations)")
        salt = try reader.take(32)
        wrapped = WrappedKey(bytes: try reader.take(40))
    }

    var encoded: [UInt8] {
        var bytes: [UInt8] = [kind.rawValue, 1, 0, 0]
        bytes.append(littleEndian: UInt32(iterations))
        return bytes + salt + wrapped.bytes
    }
}

/// One class key. FORMAT.md §2.1, 200 bytes.
public struct ClassKeyEntry: Hashable, Sendable {
    /// Whether the key wraps new files.
    public enum State: UInt8, Sendable {
        case active = 1
        case retired = 2
    }

    /// Class B's public half and who vouches for it.
    public struct PublicHalf: Hashable, Sendable {
        /// The public key.
        public let key: ClassBPublicKey
        /// 32 bytes under HKDF(class key C).
        public let macUnderC: [UInt8]
        /// 32 bytes under HKDF(device key).
        public let macUnderDevice: [UInt8]

        /// A public key with both MACs.
        public init(key: ClassBPublicKey, macUnderC: [UInt8], macUnderDevice: [UInt8]) {
            self.key = key
            self.macUnderC = macUnderC
            self.macUnderDevice = macUnderDevice
        }

        /// The same key with nobody to vouch for it: a retired one wraps nothing.
        public var retired: PublicHalf {
            let none = [UInt8](repeating: 0, count: 32)
            return PublicHalf(key: key, macUnderC: none, macUnderDevice: none)
        }

        /// What both MACs are over.
        public static func message(name: ClassKeyName, key: ClassBPublicKey) -> [UInt8] {
            name.keybag.bytes + name.classAndGeneration + key.bytes
        }
    }

    /// What the key wraps: ``ClassKeyKind``; others are kept and not used.
    public let kind: UInt8
    /// The class number.
    public let rawClass: UInt8
    /// Whether it wraps new files.
    public var state: State
    /// From 1.
    public let generation: UInt32
    /// 16 bytes: what a key from the ring must have.
    public let id: [UInt8]
    /// The key under the keybag key: 40 bytes.
    public var wrapped: WrappedKey
    /// Class D: the key under the device key, 40 bytes.
    public var wrappedByDevice: WrappedKey?
    /// Class B: the public half.
    public var publicHalf: PublicHalf?

    static let length = 200

    /// Whether this is a key of that kind.
    public func isOf(_ kind: ClassKeyKind) -> Bool { self.kind == kind.rawValue }

    /// An entry to be stored.
    public init(
        name: ClassKeyName, state: State, id: [UInt8], wrapped: WrappedKey, wrappedByDevice: WrappedKey? = nil,
        publicHalf: PublicHalf? = nil
    ) {
        kind = name.kind.rawValue
        rawClass = name.protectionClass.rawValue
        self.state = state
        generation = name.generation
        self.id = id
        self.wrapped = wrapped
        self.wrappedByDevice = wrappedByDevice
        self.publicHalf = publicHalf
    }

    init(decoding reader: inout ByteReader) throws(FormatError) {
        kind = try reader.integer(UInt8.self)
        rawClass = try reader.integer(UInt8.self)
        guard let state = State(rawValue: try reader.integer(UInt8.self)) else {
            throw .damaged(.keybag, reason: "state of a class key")
        }
        self.state = state
        try reader.zero(1)
        generation = try reader.integer(UInt32.self)
        try reader.require(generation >= 1, "generation of a class key")
        id = try reader.take(16)
        wrapped = WrappedKey(bytes: try reader.take(40))
        let deviceWrap = try reader.take(40)
        let publicBytes = try reader.take(32)
        let macC = try reader.take(32)
        let macDevice = try reader.take(32)
        let known = ClassKeyKind(rawValue: kind)
        if let known, !known.classes.contains(where: { $0.rawValue == rawClass }) {
            throw .unsupported(what: "class \(rawClass) in the keybag")
        }
        let hasDeviceWrap = deviceWrap.contains { $0 != 0 }
        let hasMACs = (macC + macDevice).contains { $0 != 0 }
        let hasPublic = hasMACs || publicBytes.contains { $0 != 0 }
        if known == .files {
            let isB = rawClass == ProtectionClass.completeUnlessOpen.rawValue
            try reader.require(hasDeviceWrap == (rawClass == ProtectionClass.none.rawValue), "wrap by the device key")
            try reader.require(publicBytes.contains { $0 != 0 } == isB, "public key of class B")
            try reader.require(!hasMACs || (isB && state == .active), "authentication of class B's public key")
        } else if known == .secrets {
            try reader.require(!hasDeviceWrap && !hasPublic, "class key of secrets")
        }
        wrappedByDevice = hasDeviceWrap ? WrappedKey(bytes: deviceWrap) : nil
        if hasPublic {
            let key = try! ClassBPublicKey(bytes: publicBytes)  // 32 bytes were taken
            publicHalf = PublicHalf(key: key, macUnderC: macC, macUnderDevice: macDevice)
        }
    }

    var encoded: [UInt8] {
        var bytes: [UInt8] = [kind, rawClass, state.rawValue, 0]
        bytes.append(littleEndian: generation)
        bytes += id + wrapped.bytes
        bytes += wrappedByDevice?.bytes ?? [UInt8](repeating: 0, count: 40)
        bytes += publicHalf.map { $0.key.bytes + $0.macUnderC + $0.macUnderDevice } ?? []
        bytes.pad(to: Self.length)
        return bytes
    }
}
