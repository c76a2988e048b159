import DurableFiles
import KernelKeyring
import ProtectionFormat
import ProtectionKeys

/// The class keys of a keybag, for one operation.
///
/// Each key of the ring is read once, and what was read is wiped when the session goes. A session lasts as long as class keys are
/// needed: it must go before the operation waits for the disk of a file, or seals or opens chunks. It cannot be copied or kept, so that
/// a lock finds no class key in any process but those of operations that are under way.
package struct KeySession: ~Copyable {
    package let keybag: Keybag
    /// Whether a lock waits for this operation.
    private let isCounted: Bool
    private var unlocked: Reading?
    private var firstUnlock: Reading?
    /// The operation, as the client of the keybag counts it: from before the first look for class keys A and B. It may be kept by what
    /// these keys have opened.
    package private(set) var use: KeyUse?

    /// What a key of the ring held.
    private final class Reading {
        /// Nil: it was not there.
        let payload: SecretBytes?
        /// Where it was.
        let serial: KeySerial?

        /// Whether it is the second look in this session: there is no third.
        let isSecond: Bool
        /// Of the payload, when somebody has asked.
        private(set) var digest: GenuineKeys.Digest?

        init(_ slot: RingSlot, _ serial: KeySerial?, isSecond: Bool) throws(DataProtectionError) {
            self.isSecond = isSecond
            var serial = serial
            payload = try RingKeys.payload(of: slot, serial: &serial)
            self.serial = serial
        }

        func secret(of name: ClassKeyName) -> SecretBytes? {
            payload?.withUnsafeBytes { payload -> SecretBytes? in
                RingPayload.key(of: name, in: payload).map { SecretBytes(copyOf: $0) }
            } ?? nil
        }

        /// Whether the key that was found is the one of the keybag's entry: somebody may have put another one there.
        ///
        /// - Parameter id: of the key that was found.
        func isGenuine(
            _ name: ClassKeyName, _ entry: ClassKeyEntry, among genuine: GenuineKeys,
            _ id: () throws(KeyError) -> [UInt8]
        ) throws(KeyError) -> Bool {
            if digest == nil { digest = try payload?.digest(salt: genuine.salt()) }
            guard let digest else { return false }
            return try genuine.isGenuine(name, id: entry.id, in: digest, id)
        }
    }

    /// Reads nothing yet.
    ///
    /// - Parameters:
    ///   - use: the operation, if it has begun already and goes on after the session.
    ///   - isCounted: false for a look that opens no file: no lock waits for it.
    package init(_ keybag: Keybag, for use: KeyUse? = nil, isCounted: Bool = true) {
        self.keybag = keybag
        self.isCounted = isCounted
        self.use = use
    }

    /// Lends class key A, C or D; nil if it is not in the ring, or what is there is not this key.
    package mutating func withClassKey<R: ~Copyable>(
        _ name: ClassKeyName, _ body: (borrowing ClassKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R? {
        if name.protectionClass == .none { return try keybag.withClassD(name, body) }
        guard let entry = try keybag.entry(of: name), let secret = try secret(of: name) else { return nil }
        let key = try Self.classKey(name, secret)
        guard try isGenuine(name, entry, { () throws(KeyError) in try key.id() }) else { return nil }
        return try body(key)
    }

    /// Lends class B's private half; nil if it is not in the ring, or what is there is not this key.
    package mutating func withClassB<R: ~Copyable>(
        _ name: ClassKeyName, _ body: (borrowing ClassBPrivateKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R? {
        guard let entry = try keybag.entry(of: name), let secret = try secret(of: name) else { return nil }
        let key = try Self.classBKey(name, secret)
        guard try isGenuine(name, entry, { () throws(KeyError) in try key.id() }) else { return nil }
        return try body(key)
    }

    /// Whether the ring holds class key A, B private or C: cheaper than to lend it, because a payload that was judged before is only compared.
    package mutating func holds(_ name: ClassKeyName) throws(DataProtectionError) -> Bool {
        guard let entry = try keybag.entry(of: name), let secret = try secret(of: name) else { return false }
        return try isGenuine(name, entry) { () throws(KeyError) in
            // A copy, in the rare case that it is needed.
            let copy = secret.slice(0..<secret.count)
            if name.protectionClass == .completeUnlessOpen {
                return try ClassBPrivateKey(name: name, secret: copy).id()
            }
            return try ClassKey(name: name, secret: copy).id()
        }
    }

    /// What the ring holds as class key A, genuine or not; nil if it holds none. For handles, which know the key by a mask.
    ///
    /// - Parameter serial: where the key was last time, to save the search.
    package mutating func unverifiedClassA(
        _ name: ClassKeyName, at serial: inout KeySerial?
    ) throws(DataProtectionError) -> ClassKey? {
        let secret = try secret(of: name, at: serial)
        serial = classASerial
        guard let secret else { return nil }
        return try Self.classKey(name, secret)
    }

    /// Where class key A was found, for the next session of a handle; nil if it was not looked for.
    package var classASerial: KeySerial? { unlocked?.serial }

    /// The payload with class keys A and B, if it was judged; nil if it was read twice, and one of them was found in each.
    var judgedUnlocked: GenuineKeys.Payload? {
        guard let unlocked, !unlocked.isSecond, let serial = unlocked.serial, let digest = unlocked.digest else {
            return nil
        }
        return GenuineKeys.Payload(serial: serial, digest: digest)
    }

    private static func classKey(
        _ name: ClassKeyName, _ secret: consuming SecretBytes
    ) throws(DataProtectionError) -> ClassKey {
        do throws(KeyError) { return try ClassKey(name: name, secret: secret) } catch { throw .cryptography(error) }
    }

    private static func classBKey(
        _ name: ClassKeyName, _ secret: consuming SecretBytes
    ) throws(DataProtectionError) -> ClassBPrivateKey {
        do throws(KeyError) { return try ClassBPrivateKey(name: name, secret: secret) } catch {
            throw .cryptography(error)
        }
    }

    /// Whether the ring holds any generation of class key C, genuine or not.
    package mutating func holdsClassC() throws(DataProtectionError) -> Bool {
        let protectionClass = ProtectionClass.completeUntilFirstUserAuthentication
        let reading: Reading?
        if let known = known(protectionClass) { reading = known } else { reading = try read(protectionClass) }
        return reading?.payload?.withUnsafeBytes { RingPayload.holds(.completeUntilFirstUserAuthentication, $0) }
            ?? false
    }

    /// Refuses to wrap anything under keys that a rotation has retired: an older copy of the keybag was put back. To be asked when the session has
    /// looked for class key C.
    ///
    /// - Throws: `keybagDamaged` if the ring has newer class keys than the keybag, and not of a rotation that was interrupted.
    package func refuseOlder(_ copy: KeybagCopy) throws(DataProtectionError) {
        guard let inRing = firstUnlock?.payload?.withUnsafeBytes({ RingPayload.newestGeneration($0) }),
            inRing > copy.newestGeneration, keybag.ring.unfinishedRotation != inRing,
            // It may have been rotated since it was read.
            try inRing > keybag.reload().newestGeneration
        else { return }
        throw .olderCopy(of: keybag)
    }

    private mutating func secret(
        of name: ClassKeyName, at serial: KeySerial? = nil
    ) throws(DataProtectionError) -> SecretBytes? {
        guard let known = known(name.protectionClass) else {
            return try read(name.protectionClass, at: serial)?.secret(of: name)
        }
        if let secret = known.secret(of: name) { return secret }
        // A rotation may have loaded another generation since the first look.
        guard known.payload != nil, !known.isSecond else { return nil }
        return try read(name.protectionClass, again: true)?.secret(of: name)
    }

    private func isGenuine(
        _ name: ClassKeyName, _ entry: ClassKeyEntry, _ id: () throws(KeyError) -> [UInt8]
    ) throws(DataProtectionError) -> Bool {
        guard let reading = known(name.protectionClass) else { return false }
        return try withKeys { () throws(KeyError) in try reading.isGenuine(name, entry, among: keybag.genuine, id) }
    }

    private func known(_ protectionClass: ProtectionClass) -> Reading? {
        switch protectionClass {
        case .complete, .completeUnlessOpen: unlocked
        case .completeUntilFirstUserAuthentication: firstUnlock
        case .none: nil
        }
    }

    /// - Returns: nil for class D, which is in no ring.
    private mutating func read(
        _ protectionClass: ProtectionClass, at serial: KeySerial? = nil, again: Bool = false
    ) throws(DataProtectionError) -> Reading? {
        switch protectionClass {
        case .complete, .completeUnlessOpen:
            if isCounted, use == nil { use = keybag.client.begin() }
            unlocked = try Reading(keybag.ring.unlocked, serial, isSecond: again)
            return unlocked
        case .completeUntilFirstUserAuthentication:
            firstUnlock = try Reading(keybag.ring.firstUnlock, serial, isSecond: again)
            return firstUnlock
        case .none: return nil
        }
    }
}
