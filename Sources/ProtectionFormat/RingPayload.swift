import ProtectionKeys

/// What a key in the kernel keyring holds. FORMAT.md §2.5.
///
///     offset     bytes  field
///     0          1      version: 1
///     1          1      n: number of entries
///     2          6      zero
///     8          8      loaded at, seconds since 1970
///     16 + 40·i  40     kind (1), class (1), zero (2), generation (4), key (32)
///
/// An entry of kind 255 has no key, but a class key id (16 bytes, then zeros): of class key D, which is not in the ring.
public enum RingPayload {
    /// One class key on its way into the ring.
    public struct Entry: ~Copyable {
        let name: ClassKeyName
        let kind: UInt8
        /// 32 bytes.
        let key: SecretBytes

        /// A symmetric class key.
        public init(_ key: borrowing ClassKey) {
            name = key.name
            kind = key.name.kind.rawValue
            self.key = key.withUnsafeBytes { SecretBytes(copyOf: $0) }
        }

        /// Class B's private half.
        public init(_ key: borrowing ClassBPrivateKey) {
            name = key.name
            kind = key.name.kind.rawValue
            self.key = key.withUnsafeBytes { SecretBytes(copyOf: $0) }
        }

        /// The id of a class key of files, in the place of the key.
        ///
        /// - Parameter id: 16 bytes: the class key id of the key's entry in the keybag.
        public init(idOf name: ClassKeyName, _ id: [UInt8]) {
            self.name = name
            kind = RingPayload.idKind
            key = SecretBytes(byteCount: 32) { slot in slot.copyBytes(from: id.prefix(RingPayload.idLength)) }
        }
    }
    private static let idKind: UInt8 = 255
    private static let idLength = 16

    /// The longest payload that is read, in bytes.
    public static let maximumLength = headerLength + 64 * entryLength
    private static let headerLength = 16
    private static let entryLength = 40

    /// Writes entry `index` of `count` and the header into `payload`, which is ``length(count:)`` bytes long.
    public static func write(
        _ entry: borrowing Entry, at index: Int, of count: Int, loadedAt: UInt64,
        into payload: UnsafeMutableRawBufferPointer
    ) {
        payload[0] = 1
        payload[1] = UInt8(count)
        for byte in 0..<8 { payload[8 + byte] = UInt8(truncatingIfNeeded: loadedAt >> (8 * byte)) }
        let start = headerLength + index * entryLength
        payload[start] = entry.kind
        payload[start + 1] = entry.name.protectionClass.rawValue
        for byte in 0..<4 {
            payload[start + 4 + byte] = UInt8(truncatingIfNeeded: entry.name.generation >> (8 * byte))
        }
        entry.key.withUnsafeBytes { key in
            UnsafeMutableRawBufferPointer(rebasing: payload[start + 8..<start + entryLength]).copyMemory(from: key)
        }
    }

    /// The bytes of a payload with `count` entries.
    public static func length(count: Int) -> Int { headerLength + count * entryLength }

    /// When the keys were loaded, in seconds since 1970; nil if this is no payload of ours.
    public static func loadedAt(_ payload: UnsafeRawBufferPointer) -> UInt64? {
        guard isWellFormed(payload) else { return nil }
        return (0..<8).reversed().reduce(0 as UInt64) { $0 << 8 | UInt64(payload[8 + $1]) }
    }

    /// The 32 bytes of the key of that class and generation, within `payload`; nil if it is not there.
    public static func key(of name: ClassKeyName, in payload: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard isWellFormed(payload) else { return nil }
        for index in 0..<Int(payload[1]) {
            let start = headerLength + index * entryLength
            let generation = payload.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self)
            guard payload[start] == name.kind.rawValue, payload[start + 1] == name.protectionClass.rawValue,
                UInt32(littleEndian: generation) == name.generation
            else { continue }
            return UnsafeRawBufferPointer(rebasing: payload[start + 8..<start + entryLength])
        }
        return nil
    }

    /// The ids of class keys that are not in the ring themselves, by generation: empty if the payload has none.
    public static func ids(of protectionClass: ProtectionClass, in payload: UnsafeRawBufferPointer) -> [UInt32: [UInt8]]
    {
        guard isWellFormed(payload) else { return [:] }
        var ids: [UInt32: [UInt8]] = [:]
        for start in stride(from: headerLength, to: payload.count, by: entryLength)
        where payload[start] == idKind && payload[start + 1] == protectionClass.rawValue {
            let generation = UInt32(littleEndian: payload.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self))
            ids[generation] = Array(payload[start + 8..<start + 8 + idLength])
        }
        return ids
    }

    /// The highest generation of any key in `payload`; nil if this is no payload of ours.
    public static func newestGeneration(_ payload: UnsafeRawBufferPointer) -> UInt32? {
        guard isWellFormed(payload) else { return nil }
        return stride(from: headerLength, to: payload.count, by: entryLength).map { start in
            UInt32(littleEndian: payload.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self))
        }.max()
    }

    /// Whether there is a key of that class in `payload`, of any generation.
    public static func holds(_ protectionClass: ProtectionClass, _ payload: UnsafeRawBufferPointer) -> Bool {
        isWellFormed(payload)
            && stride(from: headerLength, to: payload.count, by: entryLength).contains { start in
                payload[start] == ClassKeyKind.files.rawValue && payload[start + 1] == protectionClass.rawValue
            }
    }

    private static func isWellFormed(_ payload: UnsafeRawBufferPointer) -> Bool {
        guard payload.count >= headerLength, payload.count <= maximumLength, payload[0] == 1, payload[1] > 0,
            payload.count == length(count: Int(payload[1])), payload[2..<8].allSatisfy({ $0 == 0 })
        else { return false }
        return stride(from: headerLength, to: payload.count, by: entryLength).allSatisfy { start in
            payload[start + 2] == 0 && payload[start + 3] == 0
        }
    }
}
