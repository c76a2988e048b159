import DurableFiles
import Keybags
import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

/// The ways to open, make and lock a keybag. They are here, and not with the keybag, because every lock and unlock also finishes class
/// changes, of which the keybag knows nothing.
extension LockFollowUp {
    /// Finishes class changes of processes that have died.
    package static let classChanges = LockFollowUp { keybag, warn in ClassChangeIntent.finishAll(in: keybag, warn: warn)
    }
}

extension Keybag {
    /// The user's keybag: `PROTECTFS_KEYBAG`, else `$XDG_DATA_HOME/protectfs/default`.
    ///
    /// - Throws: `keybagNotFound` when there is none yet; see ``create(at:passcode:)-(FilePath,_)``.
    public static var user: Keybag {
        get throws(DataProtectionError) { try Keybag(at: Locations.keybag) }
    }

    /// Opens the keybag in `directory`. No key is needed and none is loaded.
    ///
    /// - Parameters:
    ///   - directory: 0700, its files 0600, owned by this user. Files that others may read are narrowed, with a warning.
    ///   - warn: called for what goes on but should be known; the library itself prints nothing.
    /// - Throws: `keybagNotFound`, `keybagDamaged`, `keybagUnsafe`, `unsupported`.
    public convenience init(
        at directory: FilePath, warn: @escaping @Sendable (ProtectionWarning) -> Void = { _ in }
    ) throws(DataProtectionError) {
        try self.init(at: directory, followUp: .classChanges, warn: warn)
    }

    /// The keybag of that name, if it was used on this machine and is there.
    ///
    /// Nothing authenticates the link that leads to it, nor the keybag named in a file's head: an attacker who can write to the disk can point both
    /// at a keybag of their own. So read with this keybag if you must, but write only under a keybag that the user has named.
    /// - Throws: `keybagNotFound` if it was never used, or its disk is not there.
    public static func remembered(
        _ uuid: KeybagUUID, warn: @escaping @Sendable (ProtectionWarning) -> Void = { _ in }
    ) throws(DataProtectionError) -> Keybag {
        try KeybagRegistry.keybag(uuid, followUp: .classChanges, warn: warn)
    }

    // MARK: making one

    /// Makes a new keybag with its class keys under `passcode`, and unlocks nothing.
    ///
    /// The directory appears whole or not at all. The number of PBKDF2 iterations is calibrated to about half a second on
    /// this machine, 600,000 at least.
    /// - Parameters:
    ///   - directory: where nothing is yet, or an empty directory.
    ///   - passcode: 1 to 1,024 bytes.
    /// - Throws: `keybagExists`, `exists` if something else is there, `passcodeUnusable`, `deviceKeyUnusable`, `system`.
    @discardableResult
    public static func create(
        at directory: FilePath, passcode: borrowing SecretBytes
    ) throws(DataProtectionError) -> Keybag {
        try create(at: directory, passcode: passcode, followUp: .classChanges)
    }

    /// The same with a recovery code, which opens the keybag without passcode and device key.
    ///
    /// - Parameters:
    ///   - directory: where nothing is yet, or an empty directory.
    ///   - passcode: 1 to 1,024 bytes.
    ///   - recoveryCode: new, and shown to the user already: it cannot be had a second time.
    @discardableResult
    public static func create(
        at directory: FilePath, passcode: borrowing SecretBytes, recoveryCode: borrowing RecoveryCode
    ) throws(DataProtectionError) -> Keybag {
        try create(at: directory, passcode: passcode, recoveryCode: recoveryCode, followUp: .classChanges)
    }

    /// The same with a given number of iterations: tests use few.
    @discardableResult
    package static func create(
        at directory: FilePath, passcode: borrowing SecretBytes, iterations: Int,
        deviceKey: FilePath = Locations.deviceKey,
        recoverySlot: (borrowing KeybagKey) throws(DataProtectionError) -> KeybagSlot? = { _ in nil }
    ) throws(DataProtectionError) -> Keybag {
        try create(
            at: directory, passcode: passcode, iterations: iterations, deviceKey: deviceKey, followUp: .classChanges,
            recoverySlot: recoverySlot)
    }

    /// Makes a keybag whose class keys live in this process alone, as `TemporaryKeybag` does for unit tests.
    package static func temporary(
        in directory: FilePath, warn: @escaping @Sendable (ProtectionWarning) -> Void
    ) throws(DataProtectionError) -> Keybag {
        try TemporaryKeys.makeKeybag(in: directory, followUp: .classChanges, warn: warn)
    }

    /// Puts a keybag back from its export, where there is none or where both copies are damaged.
    ///
    /// Damaged copies are kept beside the new ones, with a warning each. Nothing is unlocked. Then the passcode of the time
    /// of the export opens the keybag on its machine, and the recovery code of that time on any.
    /// - Parameters:
    ///   - directory: made if it is missing.
    ///   - path: a regular file; see FORMAT.md §2.9.
    ///   - warn: gets what was put right on the way.
    /// - Throws: `keybagIntact` if there is a keybag that opens; `damaged` if the export is; `unsupported`, `system`.
    @discardableResult
    public static func restore(
        at directory: FilePath, fromExport path: FilePath,
        warn: @escaping @Sendable (ProtectionWarning) -> Void = { _ in }
    ) throws(DataProtectionError) -> Keybag {
        try restore(at: directory, fromExport: path, followUp: .classChanges, warn: warn)
    }

    // MARK: locking without opening

    /// Evicts the keys of every keybag in the ring of this user: for a lock that must not depend on any file.
    ///
    /// A keybag that was once used here and belongs to another user now is left out, unless its keys were there.
    /// - Returns: the keybags that had keys there.
    /// - Throws: the last error, after all have been tried: also `lockUnproven` as ``lock()`` does, and `keybagUnsafe` if the keybags that this
    ///   process knows of are another user's (`HOME`, `XDG_STATE_HOME`).
    @discardableResult
    public static func lockAll() throws(DataProtectionError) -> [KeybagUUID] {
        let locked = try lockEach()
        if let failure = locked.failures.last { throw failure }
        return locked.keybags
    }

    /// The same, and says of each keybag that is not known to be locked why.
    ///
    /// - Throws: `keyringUnavailable`: then none was locked.
    package static func lockEach() throws(DataProtectionError) -> LockedKeybags {
        try LockOfUnopened(followUp: .classChanges).each()
    }

    /// Locks a keybag by its name, which works even where its directory cannot be opened, or is on a disk that is away.
    ///
    /// - Throws: `lockIncomplete`, `keyringUnavailable`; `keysElsewhere` and `lockUnproven` as ``lock()`` does, if its directory is there;
    ///   `keybagUnsafe` if its keys were there and its directory belongs to another user.
    public static func lock(_ uuid: KeybagUUID) throws(DataProtectionError) { try lock(uuid, keysWereThere: false) }

    /// - Parameter keysWereThere: whether the caller has just evicted class keys A and B.
    package static func lock(_ uuid: KeybagUUID, keysWereThere: Bool) throws(DataProtectionError) {
        try LockOfUnopened(followUp: .classChanges).lock(uuid, keysWereThere: keysWereThere)
    }

    /// Takes class keys A and B of a keybag out of the ring, and looks at no disk: an unlock that is under way may load keys again.
    ///
    /// - Returns: whether they were there.
    /// - Throws: `lockIncomplete`, `keyringUnavailable`.
    package static func evictKeys(of uuid: KeybagUUID) throws(DataProtectionError) -> Bool {
        let ring = RingKeys(uuid)
        let wereThere = ring.holdsUnlocked
        try ring.evict()
        return wereThere
    }

    /// The keybags of which any key is in the ring, and those of which an unlock is under way.
    package static func loadedOrUnlocking() throws(DataProtectionError) -> Set<KeybagUUID> {
        try UnlockUnderWay.keybags().union(RingKeys.keybagsInRing())
    }

    /// The keybags of which any key is in the ring.
    public static func loaded() throws(DataProtectionError) -> [KeybagUUID] { try RingKeys.keybagsInRing() }
}
