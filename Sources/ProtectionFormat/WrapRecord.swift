import ProtectionKeys

/// Whose file it is: class, class key and wrapped file key. FORMAT.md §3.3.
///
///     offset  bytes  field
///     0       8      wrap counter
///     8       1      class
///     9       1      wrap algorithm
///     10      1      origin verdict
///     11      1      origin MAC key
///     12      4      class-key generation
///     16      16     keybag UUID
///     32      72     wrapped file key
///     104     32     key commitment
///     136     4      generation of class key C behind the origin MAC
///     140     32     origin MAC
///     172     4      zero
///     176     28     seal
public struct WrapRecord: Hashable, Sendable {
    /// Raised by every class change; from 1.
    public var counter: UInt64
    /// The class key under which ``wrapped`` is.
    public var classKey: ClassKeyName
    /// 72 bytes for class B, 40 for the others.
    public var wrapped: WrappedKey
    /// 32 bytes that only the right file key has.
    public var commitment: [UInt8]
    /// Where the file was made, as its last wrapper claims.
    public var origin: OriginMark

    static let length = 204
    static let clearLength = 176

    /// A record that is not sealed yet.
    public init(
        counter: UInt64, classKey: ClassKeyName, wrapped: WrappedKey, commitment: [UInt8], origin: OriginMark
    ) {
        self.counter = counter
        self.classKey = classKey
        self.wrapped = wrapped
        self.commitment = commitment
        self.origin = origin
    }

    init(decoding bytes: [UInt8]) throws(FormatError) {
        var reader = ByteReader(bytes, layer: .wrapRecord)
        counter = try reader.integer(UInt64.self)
        try reader.require(counter >= 1 && counter < UInt64(1) << 62, "counter")
        let rawClass = try reader.integer(UInt8.self)
        if rawClass == 6 || rawClass == 7 { throw .unsupported(what: "class \(rawClass)") }
        guard let protectionClass = ProtectionClass(rawValue: rawClass) else {
            throw .damaged(.wrapRecord, reason: "class \(rawClass)")
        }
        let algorithm = try reader.integer(UInt8.self)
        guard algorithm == 1 || algorithm == 2 else { throw .unsupported(what: "wrap algorithm \(algorithm)") }
        try reader.require((algorithm == 2) == (protectionClass == .completeUnlessOpen), "wrap algorithm of the class")
        let verdict = try reader.integer(UInt8.self)
        let macKey = try reader.integer(UInt8.self)
        let generation = try reader.integer(UInt32.self)
        try reader.require(generation >= 1, "class-key generation")
        let keybag = try reader.take(16)
        let uuid = try! KeybagUUID(bytes: keybag)  // 16 bytes were taken
        classKey = ClassKeyName(keybag: uuid, protectionClass: protectionClass, generation: generation)
        wrapped = WrappedKey(bytes: try reader.take(algorithm == 2 ? 72 : 40))
        if algorithm == 1 { try reader.zero(32) }
        commitment = try reader.take(32)
        let macGeneration = try reader.integer(UInt32.self)
        let mac = try reader.take(32)
        origin = try OriginMark(verdict: verdict, key: macKey, generation: macGeneration, mac: mac)
        try reader.zero(4)
    }

    /// The 176 bytes before the seal.
    var clear: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: counter)
        bytes += [classKey.protectionClass.rawValue, classKey.protectionClass == .completeUnlessOpen ? 2 : 1]
        bytes += [origin.verdict.rawValue, origin.key.rawValue]
        bytes.append(littleEndian: classKey.generation)
        bytes += classKey.keybag.bytes
        bytes += wrapped.bytes
        bytes.pad(to: 104)
        bytes += commitment
        bytes.append(littleEndian: origin.generation)
        bytes += origin.mac
        bytes.pad(to: Self.clearLength)
        return bytes
    }

    /// Seals the record: 204 bytes. `headKey` is the file's.
    public func sealed(in prefix: Prefix, under headKey: borrowing SecretBytes) throws(KeyError) -> [UInt8] {
        let clear = clear
        let associated = prefix.associatedData(.wrapRecord, index: counter, extra: prefix.encoded + clear)
        return clear + (try emptySeal(under: headKey, associated: associated))
    }
}

/// Where a file was made, and how that can be checked. FORMAT.md §3.3.
public struct OriginMark: Hashable, Sendable {
    /// How closely the maker of a file is known. A weaker verdict compares as less.
    public enum Verdict: UInt8, Sendable, Comparable {
        /// Anybody who knows class B's public key.
        case unverified = 0
        /// Somebody with this device's key.
        case thisDevice = 1
        /// Somebody with class key C: the user, after the first unlock.
        case verified = 2

        public static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
    }

    /// Which key made the MAC.
    public enum Key: UInt8, Sendable {
        /// No key: nothing is proved.
        case none = 0
        /// A key from the device key.
        case device = 1
        /// A key from class key C.
        case classC = 2
    }

    /// What the maker of the record claims; it counts only as far as the MAC proves it.
    public var verdict: Verdict
    /// Which key made the MAC.
    public var key: Key
    /// The generation of class key C, or 0.
    public var generation: UInt32
    /// 32 bytes; zero without a key.
    public var mac: [UInt8]

    /// No claim.
    public static let unverified = OriginMark(
        verdict: .unverified, key: .none, generation: 0, mac: [UInt8](repeating: 0, count: 32))

    /// A claim with its MAC.
    public init(verdict: Verdict, key: Key, generation: UInt32, mac: [UInt8]) {
        self.verdict = verdict
        self.key = key
        self.generation = generation
        self.mac = mac
    }

    init(verdict: UInt8, key: UInt8, generation: UInt32, mac: [UInt8]) throws(FormatError) {
        guard let verdict = Verdict(rawValue: verdict), let key = Key(rawValue: key) else {
            throw .damaged(.wrapRecord, reason: "origin")
        }
        let isEmpty = generation == 0 && mac.allSatisfy { $0 == 0 } && verdict == .unverified
        guard key != .none || isEmpty, (key == .classC) == (generation > 0) else {
            throw .damaged(.wrapRecord, reason: "origin")
        }
        self.init(verdict: verdict, key: key, generation: generation, mac: mac)
    }

    /// What the MAC is over.
    public static func message(
        file: FileID, classKey: ClassKeyName, verdict: Verdict, wrapped: WrappedKey, commitment: [UInt8]
    ) -> [UInt8] {
        var bytes = classKey.keybag.bytes + file.bytes + classKey.classAndGeneration + [verdict.rawValue]
        let end = bytes.count + 72
        bytes += wrapped.bytes
        bytes.pad(to: end)
        return bytes + commitment
    }
}

/// SEAL(key, associated, empty): 28 bytes.
func emptySeal(under key: borrowing SecretBytes, associated: [UInt8]) throws(KeyError) -> [UInt8] {
    var sealer = try Sealer(key: key)
    let nonce = try Randomness.bytes(12)
    var seal = [UInt8](repeating: 0, count: 28)
    try nonce.lendBytes { nonce throws(KeyError) in
        try associated.lendBytes { associated throws(KeyError) in
            try seal.lendMutableBytes { seal throws(KeyError) in
                try sealer.seal(
                    UnsafeRawBufferPointer(start: nil, count: 0), nonce: nonce, associated: associated, into: seal)
            }
        }
    }
    return seal
}

/// Checks what ``emptySeal(under:associated:)`` made.
func openEmptySeal(_ seal: [UInt8], under key: borrowing SecretBytes, associated: [UInt8]) throws(KeyError) {
    var opener = try Opener(key: key)
    try seal.lendBytes { seal throws(KeyError) in
        try associated.lendBytes { associated throws(KeyError) in
            try opener.open(seal, associated: associated, into: UnsafeMutableRawBufferPointer(start: nil, count: 0))
        }
    }
}
