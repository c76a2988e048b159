package import DurableFiles
package import FoundationEssentials
import Keybags
import ProtectedFiles
import ProtectedTrees
package import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension DataProtectionError {
    /// What happened and where: lower case, no full stop, paths quoted.
    package var message: String {
        switch self {
        case .because(let failure as KeybagFailure): failure.message
        case .because(let failure as FileFailure): failure.message
        case .because(let failure as TreeFailure): failure.message
        case .because(let failure): "\(failure)"
        case .notProtected(let path): "\(quoted(path)) is not a protected file"
        case .damaged(let path, let layer, let reason, let offset):
            "\(quoted(path)) is damaged or altered\(offset.map { " at byte \($0)" } ?? "") (\(layer.rawValue): \(reason))"
        case .unsupported(let path, let what): "\(quoted(path)) was made by a newer version: \(what)"
        case .busy(let path): "\(quoted(path)) is being written to by another program"
        case .notRegularFile(let path): "\(quoted(path)) is a directory, link or device, not a regular file"
        case .hasHardLinks(let path, let count):
            "\(quoted(path)) has \(count) names (hard links); the other names would keep the old contents"
        case .exists(let path): "\(quoted(path)) exists already"
        case .keybagUnsafe(let path, let reason): "keybag file \(quoted(path)) is not used: \(reason)"
        case .usedElsewhere(let path):
            "\(quoted(path.removingLastComponent())) was used by another machine; if both used it, changes would be lost"
        case .system(let path, let operation, let errno): "\(quoted(path)): \(errno.spoken) (\(operation))"
        case .cryptography(let error): "libcrypto failed on \(error); please report this"
        }
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
        case .hardwareSecretLeft(let directory, let error):
            "the TPM still has a secret that keybag \(quoted(directory)) no longer needs; the next unlock destroys it: \(error.message)"
        case .hardwareSecretNotErased(let handle, let error):
            "the TPM may still have the secret of the erased keybag, which opens copies of it only; destroy it: "
                + "tpm2_nvundefine 0x\(String(handle, radix: 16)): \(error.message)"
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
        case .latePagesSaved(let path, let kept):
            "\(quoted(path)) was changed before it could take what a program had stored in a mapping of it; that is saved in "
                + quoted(kept)
        case .latePagesDamaged(let path, let kept):
            "\(quoted(path)) may lack what a program stored in a mapping of it before a power cut; protectfs could not open those bytes, "
                + "and has kept them in \(quoted(kept))"
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
    var spoken: String {
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
