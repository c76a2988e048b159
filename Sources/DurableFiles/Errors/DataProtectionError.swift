public import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

public import struct FoundationEssentials.Date

/// Why an operation on a keybag or a protected file failed: facts, with what a caller needs to act.
public enum DataProtectionError: Error, Hashable, Sendable {
    // MARK: files

    /// The class key is not in the keyring; waiting for an unlock can help. `since` when, if known.
    case locked(path: FilePath, ProtectionClass, AttemptedOperation, state: ProtectionState, since: Date?)
    /// Not one of our files. Its bytes are never given out as if they had been protected.
    case notProtected(FilePath)
    /// It was a protected file, and another program has changed its beginning: it cannot be read, and must not be taken for plaintext.
    case mangled(FilePath, Mangling)
    /// Stored bytes break the format; nothing of them is given out. `offset`: of the plaintext, in bytes, for chunks.
    case damaged(FilePath, FormatError.Layer, reason: String, offset: Int64?)
    /// Made by a newer version.
    case unsupported(FilePath, what: String)
    /// The file belongs to a keybag that is not available to this user.
    case foreignKeybag(FilePath, KeybagUUID)
    /// The keybag does not hold the class key of this generation. `isNewer`: it holds none that high. Then an older copy of the keybag was
    /// put back, or another device that has a copy has rotated it. Otherwise the key was forgotten, or made by another device.
    case keyLost(FilePath, ProtectionClass, generation: UInt32, isNewer: Bool = false)
    /// The file key does not open under the class key of this generation. Another device that has a copy of the keybag made a key with
    /// the same number, or somebody altered the file and made its check right: the two cannot be told apart.
    case otherKey(FilePath, ProtectionClass, generation: UInt32)
    /// Somebody else could have made the file, and would know its file key. A `completeUnlessOpen` file of unverified origin is
    /// refused for writing and for a class change; a caller that asked for a verified origin gets this for other files, too.
    case unverifiedOrigin(FilePath, OriginMark.Verdict)
    /// Nothing proves that the file was made to be appended to the log `of`: somebody else may have put it there, or queued it. It stays as it is.
    case notASegment(FilePath, of: FilePath)
    /// Another handle is writing to the file, or it changed while it was being converted.
    case busy(FilePath)
    /// 2^31 seals were made under the file's key; it must be encrypted anew.
    case needsRekey(FilePath)
    /// An earlier change or flush through this handle failed; the file is as its last acknowledged commit left it, or a later one.
    case handleFailed(FilePath, Errno)
    /// The handle was closed, or opened for reading only.
    case notOpen(FilePath, for: AttemptedOperation)
    /// Larger than 2^60 bytes, or an offset below 0.
    case outOfRange(FilePath)
    /// It takes `stored` bytes on disk and would take `needed`, for which there is no room: a protected file keeps 32 holes at most.
    case tooSparse(FilePath, stored: UInt64, needed: UInt64)
    /// A directory, link, device or socket where a regular file is needed.
    case notRegularFile(FilePath)
    /// Other names lead to the same bytes; `count` includes this one.
    case hasHardLinks(FilePath, count: Int)
    /// A SQLite database, or the `-wal`, `-shm` or `-journal` of the database `of`: SQLite could not use it any more.
    case database(FilePath, of: FilePath)
    /// A SQLite database, beside which the file `holding` may hold data that is not in it yet.
    case databaseInUse(FilePath, holding: FilePath)
    /// The file belongs to another user, who would be able to read its plaintext.
    case ownedByAnother(FilePath, uid: UInt32)
    /// There is something under that name already.
    case exists(FilePath)
    /// A weaker class than the file has, without saying so explicitly.
    case wouldWeaken(FilePath, from: ProtectionClass, to: ProtectionClass)

    /// A protection class that there is not, asked for by name.
    case unknownClass(FilePath, name: String)

    // MARK: keybags

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
    /// The directory or a file in it belongs to somebody else, or others may write to it.
    case keybagUnsafe(FilePath, reason: String)
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
    /// The keybag holds so many retired class keys that there is no room for new ones.
    case tooManyGenerations(FilePath)
    /// The keybag was made with another device key: another machine or user. No attempt was counted.
    case otherDevice(keybag: FilePath, deviceKey: FilePath)
    /// The device key's file is not there or not usable.
    case deviceKeyUnusable(FilePath, reason: String)
    /// Fewer than 600,000 PBKDF2 iterations are not accepted: the number may have been forged. No passcode was tried.
    case weakDerivation(FilePath, iterations: Int)
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
    /// The keyrings of other user namespaces still hold class keys. `namespaces` are inode numbers, as in `/proc/PID/ns/user`.
    case keysElsewhere(keybag: FilePath, namespaces: [UInt64])
    /// The keyrings of so many other user namespaces may hold class keys that an unlock here could not be recorded.
    case tooManyNamespaces(keybag: FilePath, namespaces: [UInt64])
    /// The keybag is used outside this process's user namespace, where no lock could evict keys that are loaded here.
    case outOfReachOfLocks(keybag: FilePath)
    /// There is no backup in that directory.
    case backupNotFound(FilePath)
    /// The passphrase does not open the backup; an altered backup keybag cannot be told from it.
    case wrongBackupPassphrase(FilePath)
    /// The backup has not got the class key that the file is under, so that a copy of it could never be opened.
    case keyNotInBackup(FilePath, ProtectionClass, generation: UInt32, backup: FilePath)
    /// A keybag's directory, or the backup's own: neither belongs into a backup.
    case notForBackup(FilePath)
    /// The process that did this queued work died each time, so it is left alone. The path counts how often.
    case setAside(FilePath)
    /// Another machine has used the store of secrets or list of downloads; the file notes which one.
    case usedElsewhere(FilePath)
    /// The rules of an upgrade are kept in the directory that they are for.
    case rulesWithin(FilePath, rules: FilePath)
    /// A line of the user's configuration, or of rules, makes no sense.
    case configuration(FilePath, line: Int, reason: String)

    // MARK: the system

    /// The operating system refused; `operation` is the system call.
    case system(FilePath, operation: String, Errno)
    /// libcrypto failed on input that cannot make it fail.
    case cryptography(KeyError)
}

extension DataProtectionError {
    /// The POSIX error that says the same: ENOKEY for *locked*.
    public var errno: Errno {
        switch self {
        case .locked, .lockedMeanwhile: Errno(rawValue: 126)  // ENOKEY
        case .keysElsewhere, .tooManyNamespaces: .resourceBusy
        case .lockUnproven(_, let doubt): doubt.errno
        case .outOfReachOfLocks, .ownedByAnother: .notPermitted
        case .system(_, _, let errno), .handleFailed(_, let errno), .keyringUnavailable(let errno),
            .lockIncomplete(_, let errno), .attemptsNotRecorded(_, let errno),
            .keybagUnconfirmed(_, let errno):
            errno
        case .notProtected, .mangled, .damaged, .unsupported, .keybagDamaged, .weakDerivation, .configuration,
            .unverifiedOrigin, .notASegment:
            .badMessage
        case .foreignKeybag, .keyLost, .otherKey, .otherDevice, .deviceKeyUnusable, .keyNotInBackup:
            Errno(rawValue: 126)
        case .busy, .databaseInUse, .throttled, .setAside, .usedElsewhere: .resourceBusy
        case .needsRekey, .outOfRange: .fileTooLarge
        case .notOpen: .badFileDescriptor
        case .notRegularFile, .hasHardLinks, .database, .wouldWeaken, .passcodeUnusable, .unknownClass, .rulesWithin,
            .notForBackup:
            .invalidArgument
        case .exists, .keybagExists, .keybagIntact: .fileExists
        case .keybagNotFound, .noRecoveryCode, .backupNotFound: .noSuchFileOrDirectory
        case .keybagUnsafe, .wrongPasscode, .wrongRecoveryCode, .wrongBackupPassphrase, .keysUnreadable:
            .permissionDenied
        case .tooManyGenerations, .tooSparse: .noSpace
        case .cryptography: .ioError
        }
    }
}

extension DataProtectionError {
    /// Whether an unlock would help.
    package var isLocked: Bool { if case .locked = self { true } else { false } }
}

/// Runs a key operation whose failure is nobody's input.
package func withKeys<R: ~Copyable>(_ body: () throws(KeyError) -> R) throws(DataProtectionError) -> R {
    do throws(KeyError) { return try body() } catch { throw .cryptography(error) }
}

/// Runs a decoding of the bytes at `path`.
package func withFormat<R: ~Copyable>(
    _ path: FilePath, _ body: () throws(FormatError) -> R
) throws(DataProtectionError) -> R {
    do throws(FormatError) {
        return try body()
    } catch {
        switch error {
        case .notOurs: throw .notProtected(path)
        case .unsupported(let what): throw .unsupported(path, what: what)
        case .damaged(let layer, let reason): throw .damaged(path, layer, reason: reason, offset: nil)
        }
    }
}
