import DurableFiles
import Glibc
import KernelKeyring
import ProtectionFormat
public import ProtectionKeys
import Synchronization
public import SystemPackage
internal import TrustedModule

/// A user's class keys, and the one argument that turns Foundation's file writes into protected ones.
///
/// The passcode is the user's, not the file's: one keybag serves protected files anywhere on disk. The lock state is in
/// the kernel keyring and is the same for every process and session of this user.
public final class Keybag: Sendable {
    /// The directory that holds the keybag.
    public let directory: FilePath
    /// The name that protected files carry in their heads.
    public let uuid: KeybagUUID

    package let ring: RingKeys
    package let file: KeybagFile
    package let attempts: AttemptFile
    package let transition: TransitionFile
    package let rings: RingPlaces
    let genuine = GenuineKeys()
    /// This process, as others see what it has open.
    package let client: Client
    package let deviceKeys: any DeviceKeySource = DeviceKeyFile()
    package let hardware: any HardwareSecretSource
    package let warn: @Sendable (ProtectionWarning) -> Void
    package let followUp: LockFollowUp

    /// Class key D is kept: it opens in every state, so that keeping it gives nothing away.
    private final class KeptKey: Sendable {
        let key: ClassKey
        /// The same generation can be another key: a keybag that was restored and rotated again.
        let id: [UInt8]
        init(_ key: consuming ClassKey, id: [UInt8]) {
            self.id = id
            self.key = key
        }
    }

    private struct Cached {
        var copy: KeybagCopy
        /// Which files it was read from; nil: they have been replaced by this process.
        var stamp: KeybagFile.Stamp?
        var classD: KeptKey?
        /// The id of class key D that the ring has confirmed.
        var confirmedD: [UInt8]?
        var defaultProtection: ProtectionClass?
        var fallbackProtection = ProtectionClass.completeUntilFirstUserAuthentication
    }
    private let cached: Mutex<Cached>

    /// Opens the keybag in `directory`, as `init(at:warn:)` of the layer above does, which knows what follows a lock.
    ///
    /// - Parameters:
    ///   - process: where a temporary keybag has its keys. No file says it: nil, for all others, is the kernel keyring.
    ///   - hardware: what a keybag can be bound to. No file says it either.
    package init(
        at directory: FilePath, ring process: ProcessRing? = nil,
        hardware: any HardwareSecretSource = TrustedModule.machine, followUp: LockFollowUp,
        warn: @escaping @Sendable (ProtectionWarning) -> Void
    ) throws(DataProtectionError) {
        try OwnDirectory.requireOneUser(for: directory)
        let file = KeybagFile(directory: directory)
        let stamp = file.stamp()
        let loaded: KeybagFile.Loaded
        do throws(DataProtectionError) { loaded = try file.load() } catch {
            // Another user's: the owner says more than the file that could not be opened.
            if error.errno == .permissionDenied, OwnDirectory.owner(of: directory) != nil {
                try OwnDirectory.requireOwner(of: directory)
            }
            throw error
        }
        try OwnDirectory.secure(directory: directory, warn: warn)
        for name in KeybagFile.allNames {
            do throws(DataProtectionError) {
                try OwnDirectory.secure(file: directory.appending(name), warn: warn)
            } catch .system(_, _, .noSuchFileOrDirectory) {}
        }
        if let damaged = loaded.damaged { warn(.keybagCopyDamaged(damaged)) }
        self.directory = directory
        self.file = file
        self.warn = warn
        self.followUp = followUp
        self.hardware = hardware
        uuid = loaded.copy.uuid
        ring = RingKeys(uuid, in: process)
        attempts = AttemptFile(directory: directory, keybag: uuid)
        transition = TransitionFile(directory: directory)
        rings = RingPlaces(directory: directory)
        client = .of(directory, loaded.copy.uuid)
        cached = Mutex(Cached(copy: loaded.copy, stamp: stamp, classD: nil, defaultProtection: nil))
        ring.clearExpired(in: directory)
    }

    /// The class of new files of this program when neither an argument, the file replaced nor the directory says one.
    public var defaultProtection: DefaultProtection {
        get { programProtection.map { .of($0) } ?? .unspecified }
        set { programProtection = newValue.protectionClass }
    }

    /// ``defaultProtection``, nil if the program says nothing.
    package var programProtection: ProtectionClass? {
        get { cached.withLock { $0.defaultProtection } }
        set { cached.withLock { $0.defaultProtection = newValue } }
    }

    /// The class of new files if nothing else says one, the user's configuration included. iOS's, unless it is set.
    package var fallbackProtection: ProtectionClass {
        get { cached.withLock { $0.fallbackProtection } }
        set { cached.withLock { $0.fallbackProtection = newValue } }
    }

    /// Whether files of every class can be opened now: class keys A and B private are in the ring.
    public var isProtectedDataAvailable: Bool {
        // Programs ask often: while the ring has the very payload that was judged, one read of it is enough.
        if ring.process == nil, let known = genuine.lastUnlocked,
            let digest = try? RingKeys.read(known.serial).digest(salt: genuine.salt()), digest == known.digest
        {
            return true
        }
        return (try? state()) == .unlocked
    }

    /// The lock state, read from the kernel keyring.
    ///
    /// A key that somebody else planted in the ring does not count: its id is not the keybag's.
    /// - Throws: `keyringUnavailable`.
    public func state() throws(DataProtectionError) -> ProtectionState {
        var session = KeySession(self, isCounted: false)
        let copy = lastKnown
        let hasA = try session.holds(copy.activeName(.complete))
        let hasB = try session.holds(copy.activeName(.completeUnlessOpen))
        if hasA && hasB {
            genuine.lastUnlocked = session.judgedUnlocked
            return .unlocked
        }
        let hasC = try session.holds(copy.activeName(.completeUntilFirstUserAuthentication))
        return hasC ? .locked : .beforeFirstUnlock
    }

    // MARK: class keys

    /// The key that wraps new files of a class.
    package func activeName(_ protectionClass: ProtectionClass) -> ClassKeyName {
        lastKnown.activeName(protectionClass)
    }

    /// The keybag as it is on disk now: another process may have rotated its keys. Costs two looks at names (stat(2)).
    ///
    /// - Throws: what keeps it from being read: nothing is wrapped under a key that may have been retired, or forgotten.
    package func current() throws(DataProtectionError) -> KeybagCopy {
        let stamp = file.stamp()
        if let copy = cached.withLock({ $0.stamp == stamp ? $0.copy : nil }) { return copy }
        let copy = try file.load().copy
        guard copy.uuid == uuid else { throw .because(KeybagFailure.keybagNotFound(directory)) }
        cached.withLock { ($0.copy, $0.stamp) = (copy, stamp) }
        return copy
    }

    /// The same, or where it cannot be read the one that was read last: to say something of the ring, and to wrap nothing.
    package var lastKnown: KeybagCopy { (try? current()) ?? cached.withLock { $0.copy } }

    /// The keybag's entry of a key; looks on disk again before it says that there is none.
    package func entry(of name: ClassKeyName) throws(DataProtectionError) -> ClassKeyEntry? {
        if let entry = cached.withLock({ $0.copy.entry(of: name) }) { return entry }
        return try reload().entry(of: name)
    }

    /// Reads the keybag from disk anew.
    @discardableResult
    package func reload() throws(DataProtectionError) -> KeybagCopy {
        let copy = try file.load().copy
        guard copy.uuid == uuid else { throw .because(KeybagFailure.keybagNotFound(directory)) }
        cache(copy)
        return copy
    }

    /// Takes a keybag that was read from disk.
    package func cache(_ copy: KeybagCopy) { cached.withLock { ($0.copy, $0.stamp) = (copy, nil) } }

    /// Lends class key A, C or D; nil if it is not in the ring, or what is there is not this key. For one question only: an operation that
    /// needs several has a ``KeySession``.
    package func withClassKey<R: ~Copyable>(
        _ name: ClassKeyName, _ body: (borrowing ClassKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R? {
        var session = KeySession(self, isCounted: false)
        return try session.withClassKey(name, body)
    }

    /// Lends class B's private half; nil if it is not in the ring, or what is there is not this key. As ``withClassKey(_:_:)``.
    package func withClassB<R: ~Copyable>(
        _ name: ClassKeyName, _ body: (borrowing ClassBPrivateKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R? {
        var session = KeySession(self, isCounted: false)
        return try session.withClassB(name, body)
    }

    /// Whether the ring has any genuine key that is there only while unlocked: of class A or B, of files or of secrets, active or retired.
    func holdsAnyUnlockedKey() throws(DataProtectionError) -> Bool {
        var session = KeySession(self, isCounted: false)
        let copy = lastKnown
        for name in copy.usedEntries.compactMap({ copy.name(of: $0) }) {
            switch name.protectionClass {
            case .complete, .completeUnlessOpen: if try session.holds(name) { return true }
            case .completeUntilFirstUserAuthentication, .none: break
            }
        }
        return false
    }

    /// Class D opens in every state: the device key unwraps it.
    func withClassD<R: ~Copyable>(
        _ name: ClassKeyName, _ body: (borrowing ClassKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R? {
        guard var entry = try entry(of: name) else { return nil }
        if cached.withLock({ $0.confirmedD }) != entry.id {
            guard let isConfirmed = try ClassDConfirmation(keybag: self).perform(name, &entry) else { return nil }
            let id = entry.id
            if isConfirmed { cached.withLock { $0.confirmedD = id } }
        }
        guard let wrapped = entry.wrappedByDevice else { return nil }
        let copy = cached.withLock { $0.copy }
        if let kept = cached.withLock({ $0.classD }), kept.key.name == name, kept.id == entry.id {
            return try body(kept.key)
        }
        let device = try deviceKeys.load(for: copy, in: directory)
        let kept = KeptKey(try Self.openD(wrapped, name, entry, device, directory), id: entry.id)
        cached.withLock { $0.classD = kept }
        return try body(kept.key)
    }

    private static func openD(
        _ wrapped: WrappedKey, _ name: ClassKeyName, _ entry: ClassKeyEntry, _ device: borrowing DeviceKey,
        _ directory: FilePath
    ) throws(DataProtectionError) -> ClassKey {
        do throws(KeyError) {
            let key = try device.unwrap(wrapped, as: name)
            guard areEqualInConstantTime(try key.id(), entry.id) else { throw .unwrapFailed }
            return key
        } catch .unwrapFailed {
            throw .because(
                KeybagFailure.keybagDamaged(directory, reason: "class key D does not open under the device key"))
        } catch {
            throw .cryptography(error)
        }
    }

    /// Lends the device key.
    package func withDeviceKey<R>(
        _ body: (borrowing DeviceKey) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        try body(try deviceKey())
    }

    /// This machine's and user's key, read from its file.
    ///
    /// - Throws: `otherDevice`, `deviceKeyUnusable`.
    package func deviceKey() throws(DataProtectionError) -> DeviceKey {
        let copy = cached.withLock { $0.copy }
        return try deviceKeys.load(for: copy, in: directory)
    }
}
