import DurableFiles
import Glibc
import KernelKeyring
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

/// What a keybag's state is, for people and scripts.
public struct KeybagStatus: Sendable, Hashable {
    /// The lock state.
    public let state: ProtectionState
    /// The classes whose files open now, strongest first.
    public let openClasses: [ProtectionClass]
    /// ``unlockedSince`` in seconds since 1970.
    package let unlockedSeconds: UInt64?
    /// ``firstUnlockSince`` in seconds since 1970.
    package let firstUnlockSeconds: UInt64?
    /// ``lastTransition`` in seconds since 1970.
    package let lastTransitionSeconds: UInt64?
    /// ``timeUntilLock`` in seconds.
    package let secondsUntilLock: Double?
    /// How long until a passcode may be tried; zero: now; nil if the record cannot be read.
    public let retryAfter: Duration?
    /// Whether a recovery code opens the keybag too.
    public let hasRecoveryCode: Bool
}

extension Keybag {
    /// Reads the state from the ring, and what goes with it from the keybag's files.
    ///
    /// - Throws: `keysUnreadable` if the ring has a key of this keybag that cannot be read: then the state is not known.
    ///   `keysIncomplete` if some files of class A or B open although the keybag is not unlocked. `system` if the record of user namespaces
    ///   cannot be read. `keyringUnavailable`.
    public func status() throws(DataProtectionError) -> KeybagStatus {
        let state = try knownState()
        if state != .unlocked { _ = try rings.elsewhere() }  // else keys in another namespace could not be ruled out
        let record = transition.read()
        let ends = [record.deadline, asItHoldsHere(record).limit].filter { $0 != 0 }
        let isDue = state == .unlocked && record.bootID == Clock.bootID() && Clock.isOfMachine
        let left = ends.min().map { $0 - min($0, Clock.bootTime()) }
        return KeybagStatus(
            state: state, openClasses: ProtectionClass.allCases.filter { AccessRule.opens($0, in: state) },
            unlockedSeconds: try Self.loadedAt(ring.unlocked),
            firstUnlockSeconds: try Self.loadedAt(ring.firstUnlock),
            lastTransitionSeconds: record.lastChange,
            secondsUntilLock: isDue ? left.map { Double($0) / 1_000_000_000 } : nil,
            retryAfter: (try? attempts.remainingDelay()).map { .seconds($0) }, hasRecoveryCode: hasRecoveryCode)
    }

    /// The same as ``state()``, for callers that must not take a key for absent only because it cannot be read, nor all keys because one is.
    ///
    /// A forged key opens nothing and counts as absent. But an attacker who forges one key can leave the genuine ones beside it.
    /// - Throws: `keysUnreadable`, `keysIncomplete`, `keyringUnavailable`.
    package func knownState() throws(DataProtectionError) -> ProtectionState {
        var doubt: DataProtectionError?
        for look in 1...5 {
            // A process that removes an expired key first puts an empty key in its place, which not every session may read. And an unlock may load
            // keys between two looks at the ring.
            if look > 1 { usleep(10_000) }
            guard !ring.unlocked.isUnreadable, !ring.firstUnlock.isUnreadable else {
                doubt = .because(KeybagFailure.keysUnreadable(keybag: directory))
                continue
            }
            let state = try state()
            if state == .unlocked { return state }
            if try !holdsAnyUnlockedKey() { return state }
            doubt = .because(KeybagFailure.keysIncomplete(keybag: directory))
        }
        throw doubt ?? .because(KeybagFailure.keysUnreadable(keybag: directory))
    }

    /// The other user namespaces whose keyrings may hold class keys A and B: inode numbers, as in `/proc/PID/ns/user`. 0: one of which only the kernel
    /// knows.
    ///
    /// - Throws: `system` if that cannot be looked up.
    package func namespacesWithKeys() throws(DataProtectionError) -> [UInt64] {
        let recorded = (try? rings.elsewhere()) ?? []
        guard recorded.isEmpty else { return recorded }
        return try ring.isUnlockedElsewhere() ? [0] : []
    }

    /// Makes sure that no other user namespace holds class keys A and B, as far as is known.
    ///
    /// - Throws: `keysElsewhere`; `system` if that cannot be looked up.
    package func refuseKeysElsewhere() throws(DataProtectionError) {
        try rings.refuseElsewhere()
        if try ring.isUnlockedElsewhere() { throw otherNamespaceFailure }
    }

    /// When class keys A and B of a keybag that need not be opened were loaded, in seconds since 1970; nil: they are not there. Looks at no disk.
    ///
    /// - Throws: as ``status()``, of the ring.
    package static func unlockedSeconds(of uuid: KeybagUUID) throws(DataProtectionError) -> UInt64? {
        try loadedAt(RingKeys(uuid).unlocked)
    }

    private static func loadedAt(_ key: RingSlot) throws(DataProtectionError) -> UInt64? {
        var serial: KeySerial?
        guard let payload = try RingKeys.payload(of: key, serial: &serial) else { return nil }
        return payload.withUnsafeBytes { RingPayload.loadedAt($0) }
    }
}
