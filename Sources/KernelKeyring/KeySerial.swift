import CKeyutils
public import SystemPackage

/// The kernel's number of a key or keyring: keyctl(2) in Swift.
///
/// Every function names its C call, so that the man pages stay useful. Errors are `Errno`; ENOKEY, EKEYREVOKED and
/// EKEYEXPIRED have no names in swift-system and are given here.
public struct KeySerial: RawRepresentable, Hashable, Sendable {
    /// `key_serial_t`: below 0, a keyring that the kernel looks up.
    public let rawValue: Int32
    /// A number that the kernel gave.
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// `@u`, the user keyring (user-keyring(7)): every session of the uid reaches it.
    public static let userKeyring = KeySerial(rawValue: KEY_SPEC_USER_KEYRING)
    /// `@t`, the calling thread's own keyring (thread-keyring(7)).
    public static let threadKeyring = KeySerial(rawValue: KEY_SPEC_THREAD_KEYRING)
}

extension Errno {
    /// No such key (ENOKEY, "Required key not available").
    public static var requiredKeyNotAvailable: Errno { Errno(rawValue: 126) }
    /// The key has expired (EKEYEXPIRED).
    public static var keyExpired: Errno { Errno(rawValue: 127) }
    /// The key was revoked (EKEYREVOKED).
    public static var keyRevoked: Errno { Errno(rawValue: 128) }
}

extension KeySerial {
    /// Finds a key of type `user` in this keyring. The C call is `keyctl_search`, keyctl_search(3).
    public func search(_ description: String) throws(Errno) -> KeySerial {
        let found = keyctl_search(rawValue, "user", description, 0)
        guard found >= 0 else { throw .latest() }
        return KeySerial(rawValue: Int32(found))
    }

    /// Reads the payload into `buffer` and returns its whole length, which may be more than the buffer holds.
    /// The C call is `keyctl_read`, keyctl_read(3).
    public func read(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
        let count = keyctl_read(rawValue, start, buffer.count)
        guard count >= 0 else { throw .latest() }
        return Int(count)
    }

    /// Adds a key of type `user`, or gives the key of that description a new payload, which also ends its timeout.
    /// The C call is `add_key`, add_key(2).
    public func add(_ description: String, payload: UnsafeRawBufferPointer) throws(Errno) -> KeySerial {
        let added = add_key("user", description, payload.baseAddress, payload.count, rawValue)
        guard added >= 0 else { throw .latest() }
        return KeySerial(rawValue: added)
    }

    /// Makes an empty keyring in this keyring. The C call is `add_key` with the type `keyring`, add_key(2).
    public func addKeyring(_ description: String) throws(Errno) -> KeySerial {
        let added = add_key("keyring", description, nil, 0, rawValue)
        guard added >= 0 else { throw .latest() }
        return KeySerial(rawValue: added)
    }

    /// Makes the key unusable at once and removes it from every keyring.
    /// The C call is `keyctl_invalidate`, keyctl_invalidate(3).
    public func invalidate() throws(Errno) {
        guard keyctl_invalidate(rawValue) == 0 else { throw .latest() }
    }

    /// Removes a link to `key` from this keyring. The C call is `keyctl_unlink`, keyctl_unlink(3).
    public func unlink(_ key: KeySerial) throws(Errno) {
        guard keyctl_unlink(key.rawValue, rawValue) == 0 else { throw .latest() }
    }

    /// Links `key` into this keyring. The C call is `keyctl_link`, keyctl_link(3).
    public func link(_ key: KeySerial) throws(Errno) {
        guard keyctl_link(key.rawValue, rawValue) == 0 else { throw .latest() }
    }

    /// Sets who may do what. The C call is `keyctl_setperm`, keyctl_setperm(3).
    public func setPermissions(_ permissions: UInt32) throws(Errno) {
        guard keyctl_setperm(rawValue, permissions) == 0 else { throw .latest() }
    }

    /// Lets the key expire `seconds` from now; 0 ends a timeout. The C call is `keyctl_set_timeout`, keyctl_set_timeout(3).
    public func setTimeout(seconds: UInt32) throws(Errno) {
        guard keyctl_set_timeout(rawValue, seconds) == 0 else { throw .latest() }
    }

    /// The description of a key, or nil when the key cannot be described (expired, revoked, or not ours to view).
    /// The C call is `keyctl_describe`, keyctl_describe(3).
    public func keyDescription() -> String? { (try? identity())?.description }

    /// Whether its permissions let the possessor and the user search it. False when it cannot be described.
    var isSearchable: Bool { ((try? identity())?.permissions ?? 0) & 0x0808_0000 == 0x0808_0000 }

    /// What the kernel says of a living key.
    struct Identity {
        let type: String
        /// The uid, as this user namespace has it.
        let owner: UInt32
        let permissions: UInt32
        let description: String
    }

    /// The C call is `keyctl_describe`, keyctl_describe(3).
    ///
    /// - Throws: `keyExpired`, `keyRevoked`; `requiredKeyNotAvailable` if there is no such key; `permissionDenied` if it is not ours to view;
    ///   `fileNameTooLong` if its name is longer than any of ours; `invalidArgument` if the kernel's answer has another form.
    func identity() throws(Errno) -> Identity {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = buffer.withUnsafeMutableBytes {
            keyctl_describe(rawValue, $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
        }
        guard count > 0 else { throw .latest() }
        guard count <= buffer.count else { throw .fileNameTooLong }
        // type;uid;gid;permissions;description, and a byte 0
        let fields = buffer[..<(count - 1)].split(separator: 0x3B, maxSplits: 4, omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        guard fields.count == 5, let owner = Int64(fields[1]), let permissions = UInt32(fields[3], radix: 16) else {
            throw .invalidArgument
        }
        return Identity(
            type: fields[0], owner: UInt32(truncatingIfNeeded: owner), permissions: permissions, description: fields[4])
    }

    /// The keys linked in this keyring. The C call is `keyctl_read`, keyctl_read(3).
    public func members() throws(Errno) -> [KeySerial] {
        var capacity = 256
        while true {
            let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity * 4, alignment: 4)
            defer { bytes.deallocate() }
            let count = try read(into: bytes) / 4
            if count <= capacity {
                return (0..<count).map { KeySerial(rawValue: bytes.load(fromByteOffset: $0 * 4, as: Int32.self)) }
            }
            capacity = count
        }
    }
}
