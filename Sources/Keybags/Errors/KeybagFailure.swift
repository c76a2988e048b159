public import DurableFiles
public import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

public import struct FoundationEssentials.Date

/// Why a keybag could not do what it was asked for, or has no key for a file.
public enum KeybagFailure: LayerFailure {
    // MARK: keys of files

    /// The class key is not in the keyring; waiting for an unlock can help. `since` when, if known.
    case locked(path: FilePath, ProtectionClass, AttemptedOperation, state: ProtectionState, since: Date?)
    /// The keybag does not hold the class key of this generation. `isNewer`: it holds none that high. Then an older copy of the keybag was
    /// put back, or another device that has a copy has rotated it. Otherwise the key was forgotten, or made by another device.
    case keyLost(FilePath, ProtectionClass, generation: UInt32, isNewer: Bool = false)

    // MARK: the keybag

    /// No keybag in that directory.
    case keybagNotFound(FilePath)
    /// A keybag is there already.
    case keybagExists(FilePath)
    /// Nothing is restored over a keybag that opens: `there` is in the directory, the export is of `exported`.
    case keybagIntact(FilePath, _ there: KeybagUUID, exported: KeybagUUID)
    /// Both copies are damaged.
    case keybagDamaged(FilePath, reason: String)
    /// The keybag was replaced, but the disk did not confirm it: after a power cut the one before may be back.
    case keybagUnconfirmed(FilePath, Errno)
    /// The keybag holds so many retired class keys that there is no room for new ones.
    case tooManyGenerations(FilePath)
    /// A line of the user's configuration, or of rules, makes no sense.
    case configuration(FilePath, line: Int, reason: String)

    // MARK: what opens it

    /// The passcode does not open the keybag; an altered keybag cannot be told from it. The next one is tried after `retryAfter`; zero: at once.
    case wrongPasscode(keybag: FilePath, failures: Int, retryAfter: Duration)
    /// Too many wrong passcodes; none is tried before `retryAfter` is over.
    case throttled(keybag: FilePath, retryAfter: Duration)
    /// The attempt cannot be recorded, so none is made.
    case attemptsNotRecorded(FilePath, Errno)
    /// Empty, or longer than 1,024 bytes.
    case passcodeUnusable(reason: String)
    /// The recovery code is none of this keybag, or one that was spent.
    case wrongRecoveryCode(keybag: FilePath)
    /// The keybag has no recovery code.
    case noRecoveryCode(FilePath)
    /// A first-unlock secret does not open the keybag, or cannot be added or removed.
    case firstUnlockSecret(keybag: FilePath, FirstUnlockSecretProblem)
    /// The TPM that the keybag is bound to, or is to be bound to, does not help. No attempt was counted.
    case hardware(keybag: FilePath, HardwareProblem)
    /// The keybag was made with another device key: another machine or user. No attempt was counted.
    case otherDevice(keybag: FilePath, deviceKey: FilePath)
    /// The device key's file is not there or not usable.
    case deviceKeyUnusable(FilePath, reason: String)
    /// Fewer than 600,000 PBKDF2 iterations are not accepted: the number may have been forged. No passcode was tried.
    case weakDerivation(FilePath, iterations: Int)

    // MARK: mounts

    /// The server of a mount that shows the file does not say where it is stored: it is stopped, or has died.
    case mountUnanswered(FilePath, Errno)

    // MARK: the keyring

    /// Somebody locked while the passcode was being checked; the lock wins.
    case lockedMeanwhile(keybag: FilePath)
    /// The kernel refuses keyring calls, as some containers do.
    case keyringUnavailable(Errno)
    /// A class key could not be removed from the keyring.
    case lockIncomplete(keybag: String, Errno)
    /// The class keys were evicted, but an unlock that began before may load them again: `doubt` says why that is not certain. To be sure, lock
    /// again when the cause is gone.
    case lockUnproven(keybag: FilePath, LockDoubt)
    /// A key of the keybag is in the keyring, but this process may not read it: the lock state is not known.
    case keysUnreadable(keybag: FilePath)
    /// Some class keys that only an unlocked keybag has are in the keyring, and others of them are not, or are forged: some files of class A or B
    /// open.
    case keysIncomplete(keybag: FilePath)
    /// The keyrings of other user namespaces still hold class keys. `namespaces` are inode numbers, as in `/proc/PID/ns/user`.
    case keysElsewhere(keybag: FilePath, namespaces: [UInt64])
    /// The keyrings of so many other user namespaces may hold class keys that an unlock here could not be recorded.
    case tooManyNamespaces(keybag: FilePath, namespaces: [UInt64])
    /// The keybag is used outside this process's user namespace, where no lock could evict keys that are loaded here.
    case outOfReachOfLocks(keybag: FilePath)
}

extension KeybagFailure {
    /// ENOKEY for what an unlock, or another keybag or machine, would open.
    public var errno: Errno {
        switch self {
        case .locked, .lockedMeanwhile, .keyLost, .otherDevice, .deviceKeyUnusable: Errno(rawValue: 126)  // ENOKEY
        case .keybagDamaged, .weakDerivation, .configuration: .badMessage
        case .keybagExists, .keybagIntact: .fileExists
        case .keybagNotFound, .noRecoveryCode: .noSuchFileOrDirectory
        case .passcodeUnusable: .invalidArgument
        case .wrongPasscode, .wrongRecoveryCode, .keysUnreadable, .keysIncomplete: .permissionDenied
        case .outOfReachOfLocks: .notPermitted
        case .throttled, .keysElsewhere, .tooManyNamespaces: .resourceBusy
        case .firstUnlockSecret(_, let problem): problem.errno
        case .tooManyGenerations: .noSpace
        case .hardware(_, let problem): problem.errno
        case .lockUnproven(_, let doubt): doubt.errno
        case .keyringUnavailable(let errno), .lockIncomplete(_, let errno), .attemptsNotRecorded(_, let errno),
            .keybagUnconfirmed(_, let errno), .mountUnanswered(_, let errno):
            errno
        }
    }
}

extension DataProtectionError {
    /// Whether an unlock would help.
    package var isLocked: Bool { if case .because(KeybagFailure.locked) = self { true } else { false } }

    /// Whether somebody else is in the way for now: the same may succeed later although nothing was changed.
    package var isPassing: Bool {
        switch self {
        case .busy, .because(KeybagFailure.mountUnanswered): true
        default: false
        }
    }
}

extension KeybagFailure {
    /// Of `keybagDamaged`: it opens, and is not the one in force.
    package static let olderCopyReason = "the keyring has newer class keys; an older copy was put back"
}

extension HardwareProblem {
    fileprivate var errno: Errno {
        switch self {
        case .libraryMissing, .deviceMissing: .noSuchAddressOrDevice
        case .permissionDenied, .ownerHasPassword: .permissionDenied
        case .failed: .ioError
        case .lockedOut: .resourceBusy
        case .otherModule, .secretMissing, .olderKeybag: Errno(rawValue: 126)  // ENOKEY
        case .altered: .badMessage
        case .noRoom: .noSpace
        case .alreadyBound: .fileExists
        case .notBound: .noSuchFileOrDirectory
        }
    }
}

extension FirstUnlockSecretProblem {
    fileprivate var errno: Errno {
        switch self {
        case .unknown, .outdated: .permissionDenied
        case .exists: .fileExists
        case .absent: .noSuchFileOrDirectory
        case .unusableName: .invalidArgument
        case .noRoom: .noSpace
        }
    }
}
