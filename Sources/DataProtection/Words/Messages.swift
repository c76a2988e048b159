package import DurableFiles
package import FoundationEssentials
import Keybags
package import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension DataProtectionError {
    /// What happened and where: lower case, no full stop, paths quoted.
    package var message: String {
        switch self {
        case .locked(let path, let protectionClass, let operation, let state, let since):
            lockedMessage(path, protectionClass, operation, state, since)
        case .notProtected(let path): "\(quoted(path)) is not a protected file"
        case .mangled(let path, let mangling):
            "\(quoted(path)) was a protected file until another program changed it: \(mangling.spoken)"
        case .damaged(let path, let layer, let reason, let offset):
            "\(quoted(path)) is damaged or altered\(offset.map { " at byte \($0)" } ?? "") (\(layer.rawValue): \(reason))"
        case .unsupported(let path, let what): "\(quoted(path)) was made by a newer version: \(what)"
        case .foreignKeybag(let path, let uuid):
            "\(quoted(path)) belongs to keybag \(uuid), which is not available to you"
        case .keyLost(let path, let protectionClass, let generation, let isNewer):
            "\(quoted(path)) needs class key \(protectionClass.shortName), generation \(generation), "
                + (isNewer
                    ? "which is newer than its keybag: an older copy of the keybag was put back, or another device rotated its copy"
                    : "which its keybag does not have: it was forgotten, or another device made it")
        case .otherKey(let path, let protectionClass, let generation):
            "\(quoted(path)) does not open under class key \(protectionClass.shortName), generation \(generation), of its keybag: "
                + "another device made a key with that number, or the file was altered on purpose"
        case .unverifiedOrigin(let path, _): "\(quoted(path)) could have been made by somebody else"
        case .notASegment(let path, let log):
            "\(quoted(path)) is not appended to \(quoted(log)): nothing proves that it was written as a part of that log"
        case .busy(let path): "\(quoted(path)) is being written to by another program"
        case .needsRekey(let path): "\(quoted(path)) has used up its key"
        case .handleFailed(let path, let errno):
            "\(quoted(path)) cannot be used any more after an earlier error: \(errno.spoken)"
        case .notOpen(let path, let operation): "\(quoted(path)) is not open for this: \(operation.spoken)"
        case .outOfRange(let path): "\(quoted(path)) would be too large"
        case .tooSparse(let path, let stored, let needed):
            "\(quoted(path)) takes \(spoken(bytes: stored)) on disk and would take \(spoken(bytes: needed)), which do not fit: "
                + "a protected file keeps 32 holes at most"
        case .notRegularFile(let path): "\(quoted(path)) is a directory, link or device, not a regular file"
        case .hasHardLinks(let path, let count):
            "\(quoted(path)) has \(count) names (hard links); the other names would keep the old contents"
        case .database(let path, let database):
            path == database
                ? "\(quoted(path)) is a SQLite database; SQLite could not open it any more"
                : "\(quoted(path)) belongs to the SQLite database \(quoted(database))"
        case .databaseInUse(let path, let holding):
            "\(quoted(path)) is a SQLite database, and \(quoted(holding)) may hold data that is not in it yet"
        case .exists(let path): "\(quoted(path)) exists already"
        case .wouldWeaken(let path, let from, let to):
            "\(quoted(path)) would be weaker: it is \(from.shortName), not \(to.shortName)"
        case .unknownClass(let path, let name):
            "\(quoted(path)) cannot have the class \(quoted(name)): there is no class of that name"
        default: keybagMessage
        }
    }

    private var keybagMessage: String {
        switch self {
        case .keybagNotFound(let directory): "there is no keybag in \(quoted(directory))"
        case .keybagExists(let directory): "there is a keybag in \(quoted(directory)) already"
        case .keybagIntact(let directory, let there, let exported):
            there == exported
                ? "keybag \(there) in \(quoted(directory)) is not damaged: nothing needs restoring"
                : "there is another keybag in \(quoted(directory)): it is \(there), the export is of \(exported)"
        case .keybagDamaged(let directory, let reason): "keybag \(quoted(directory)) is damaged or altered: \(reason)"
        case .keybagUnconfirmed(let directory, let errno):
            "keybag \(quoted(directory)) was replaced, but the disk did not confirm it, so the previous version may reappear: "
                + errno.spoken
        case .keybagUnsafe(let path, let reason): "keybag file \(quoted(path)) is not used: \(reason)"
        case .wrongPasscode(let keybag, let failures, let retryAfter):
            "wrong passcode for \(quoted(keybag)), or the keybag was altered (\(failures) wrong in a row"
                + (retryAfter > .zero ? ", next try in \(spoken(retryAfter)))" : ")")
        case .throttled(let keybag, let retryAfter):
            "too many wrong passcodes for \(quoted(keybag)); the next try is possible in \(spoken(retryAfter))"
        case .attemptsNotRecorded(let path, let errno):
            "the attempt cannot be recorded in \(quoted(path)): \(errno.spoken)"
        case .passcodeUnusable(let reason): "this passcode cannot be used: \(reason)"
        case .wrongRecoveryCode(let keybag):
            "this recovery code does not open \(quoted(keybag)): it is for another keybag, was used before, or the keybag was altered"
        case .noRecoveryCode(let keybag): "keybag \(quoted(keybag)) has no recovery code"
        case .tooManyGenerations(let keybag):
            "keybag \(quoted(keybag)) is full: it holds the class keys of too many rotations"
        case .otherDevice(let keybag, let deviceKey):
            "keybag \(quoted(keybag)) was made with another device key"
                + (OwnDirectory.exists(deviceKey)
                    ? " than \(quoted(deviceKey))" : ": \(quoted(deviceKey)) is not there")
        case .deviceKeyUnusable(let path, let reason): "device key \(quoted(path)) cannot be used: \(reason)"
        case .lockedMeanwhile(let keybag): "keybag \(quoted(keybag)) was locked while the passcode was checked"
        case .keyringUnavailable(let errno): "the kernel keyring cannot be used: \(errno.spoken)"
        case .lockIncomplete(let keybag, let errno):
            "keys of \(keybag) are still in the kernel keyring: \(errno.spoken)"
        case .lockUnproven(let keybag, let doubt):
            "the keys of keybag \(quoted(keybag)) were evicted, but "
                + doubt.spoken(quoted(keybag.appending(TransitionFile.name)))
        case .weakDerivation(let path, let iterations):
            "\(quoted(path)) asks for only \(iterations) PBKDF2 iterations; fewer than 600000 are not accepted"
        case .ownedByAnother(let path, let uid):
            "\(quoted(path)) belongs to user \(uid), who could read its plaintext; it is left protected"
        case .keysUnreadable(let keybag):
            "a class key of keybag \(quoted(keybag)) is in the kernel keyring but cannot be read; the lock state is unknown"
        case .keysIncomplete(let keybag):
            "only some class keys of keybag \(quoted(keybag)) are in the kernel keyring: some complete or unless-open files open"
        case .keysElsewhere(let keybag, let namespaces):
            "keybag \(quoted(keybag)) was unlocked in user namespace "
                + namespaces.map(String.init).joined(separator: " and ")
                + " and not locked there; a lock here cannot evict keys there"
        case .tooManyNamespaces(let keybag, let namespaces):
            "keybag \(quoted(keybag)) was unlocked in \(spoken(namespaces.count, "other user namespace")) and not locked there; "
                + "an unlock in one more cannot be recorded, and a lock elsewhere would not notice it"
        case .outOfReachOfLocks(let keybag):
            "keybag \(quoted(keybag)) is used outside this user namespace; a lock there could not evict keys loaded here"
        case .backupNotFound(let path): "there is no backup in \(quoted(path))"
        case .wrongBackupPassphrase(let path):
            "wrong passphrase for backup \(quoted(path)), or its keybag was altered"
        case .keyNotInBackup(let path, let protectionClass, let generation, let backup):
            "\(quoted(path)) cannot be copied: backup \(quoted(backup)) does not have its class key "
                + "\(protectionClass.shortName), generation \(generation)"
        case .notForBackup(let path):
            "\(quoted(path)) belongs to the keybag or to the backup itself and cannot be backed up"
        case .setAside(let path):
            "queued work is set aside, because protectfs died each time it ran (\(quoted(path)) counts the tries)"
        case .usedElsewhere(let path):
            "\(quoted(path.removingLastComponent())) was used by another machine; if both used it, changes would be lost"
        case .rulesWithin(let directory, let rules):
            "rules for \(quoted(directory)) must not be inside it: \(quoted(rules))"
        case .configuration(let path, let line, let reason): "\(quoted(path)), line \(line): \(reason)"
        case .system(let path, let operation, let errno): "\(quoted(path)): \(errno.spoken) (\(operation))"
        case .cryptography(let error): "libcrypto failed on \(error); please report this"
        default: "\(self)"
        }
    }

    private func lockedMessage(
        _ path: FilePath, _ protectionClass: ProtectionClass, _ operation: AttemptedOperation, _ state: ProtectionState,
        _ since: Date?
    ) -> String {
        // A keybag has no class.
        let isOfKeybag = [.changePasscode, .rotateKeys, .backUp, .restore].contains(operation)
        let about = isOfKeybag ? "" : "class \(protectionClass.shortName), "
        return "cannot \(operation.spoken) \(quoted(path)): \(about)\(state.spoken(since: since))"
    }
}

extension Mangling {
    /// What happened, behind a colon.
    package var spoken: String {
        switch self {
        case .overwritten: "some of its first 24 bytes were replaced"
        case .beginningMissing(let count):
            "its first \(count == 1 ? "byte is" : "\(count) bytes are") missing"
        case .converted: "its line ends or its character encoding were converted, as if it were text"
        }
    }
}

extension ProtectionWarning {
    /// Lower case, no full stop, paths quoted.
    package var message: String {
        switch self {
        case .modeRepaired(let path, let from, let to):
            "others could read \(quoted(path)); its mode was \(from) and is \(to) now"
        case .keybagCopyDamaged(let path):
            "one copy of the keybag, \(quoted(path)), is damaged; the other is used, and the next unlock repairs it"
        case .damagedCopyKept(let path):
            "the damaged copy is kept as \(quoted(path)); delete it when the keybag opens"
        case .forgottenKeysLeft(let path):
            "the damaged copy \(quoted(path)) may still have the forgotten class keys; delete it: shred -u \(quoted(path))"
        case .directoryDefaultRaised(let path, let value):
            "the default class of \(quoted(path)) is \(quoted(value)), which is not allowed for a directory; first-unlock is used"
        case .configuredDefaultRaised(let path):
            "default-class in \(quoted(path)) is none, which is not allowed for a default; first-unlock is used"
        case .notRemembered(let uuid, let error): "keybag \(uuid) is not remembered: \(error.message)"
        case .lockNotPutOff(let path, let errno):
            "a later lock of \(quoted(path)) could not be relied on, so it is locked at once: \(errno.spoken)"
        case .manySeals(let path, let count):
            "\(quoted(path)) was written \(count) times under one key; give it a new one before 2147483648: "
                + "protectfs class --rekey \(quoted(path))"
        case .appendedBytesSaved(let path, let count, let kept):
            "\(spoken(Int64(clamping: count), "byte")) after the end of \(quoted(path)) \(count == 1 ? "was" : "were") moved to "
                + "\(quoted(kept)), which is not protected: another program appended bytes, or a write was not finished"
        case .remainsSaved(let path, let kept):
            "\(quoted(path)) had a damaged head, so later changes to it may be missing; what is left of them is saved in "
                + quoted(kept)
        case .classChangeUnfinished(let path, let error):
            "a class change was interrupted, so \(quoted(path)) may still open under its old class: "
                + (error?.message ?? "the file no longer exists; if you moved it, set its class again")
        case .classChangesUnknown(let path, let error):
            "cannot check for interrupted class changes in \(quoted(path)): \(error.message)"
        case .keybagNotRepaired(let path, let error):
            "the second copy of keybag \(quoted(path)) is not repaired: \(error.message)"
        case .oldCopyLeft(let path, let error):
            "one copy of keybag \(quoted(path)) may still be the old version and open as before; the next unlock replaces it: "
                + error.message
        case .lockStatePolled(let path, let errno):
            "\(quoted(path)) cannot be watched for changes, so it is checked once a second: \(errno.spoken)"
        case .queueNoteUnreadable(let path): "\(quoted(path)) is not a valid queue note, and its work is not done"
        case .segmentLeftOut(let path, let log, let error):
            "the lines of \(quoted(path)) are missing in \(quoted(log)), and later lines are appended without them: \(error.message)"
        case .queuedFileGone(let path):
            "\(quoted(path)) no longer exists, and its queued work is dropped; if you moved it to another directory, set its class "
                + "there, or append it to its log"
        }
    }
}

extension ProtectionState {
    /// Why a file does not open.
    package func spoken(since: Date?) -> String {
        switch self {
        case .beforeFirstUnlock: "not unlocked since the machine started"
        case .locked: "locked" + (since.map { " since \(DataProtection.spoken(time: $0))" } ?? "")
        case .unlocked: "just unlocked"
        }
    }
}

extension AttemptedOperation {
    /// The verb that stands before a path.
    fileprivate var spoken: String {
        switch self {
        case .create: "create"
        case .open: "open"
        case .read: "read"
        case .write: "write to"
        case .truncate: "change the size of"
        case .changeClass: "change the class of"
        case .changePasscode: "change the passcode of"
        case .rotateKeys: "change the class keys of"
        case .backUp: "back up the class keys of"
        case .restore: "restore into"
        }
    }
}
