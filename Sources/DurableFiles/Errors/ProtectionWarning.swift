public import ProtectionKeys
public import SystemPackage

/// Something that went on but that the user should know. A library does not print; give ``Keybag`` a handler.
public enum ProtectionWarning: Sendable, Hashable {
    /// A keybag file was readable for others and is not any more. Modes in octal.
    case modeRepaired(FilePath, from: String, to: String)
    /// One copy of the keybag was damaged and the other one took over.
    case keybagCopyDamaged(FilePath)
    /// A damaged copy of the keybag that gave way to a restored one and was kept under this name.
    case damagedCopyKept(FilePath)
    /// A directory's default class was `none` or unknown; class C was used.
    case directoryDefaultRaised(FilePath, value: String)
    /// The `default-class` of that configuration file was `none`; class C was used.
    case configuredDefaultRaised(FilePath)
    /// The keybag could not be remembered by its UUID.
    case notRemembered(KeybagUUID, DataProtectionError)
    /// A lock with a grace came at once, or failed, because the kernel refused the time limit of the keys.
    case lockNotPutOff(FilePath, Errno)
    /// 2^30 seals were made under the file's key.
    case manySeals(FilePath, UInt64)
    /// A class change that somebody else began and did not finish could not be finished: its old class may still open the file.
    /// The error, or nil if the file is not where it was.
    case classChangeUnfinished(FilePath, DataProtectionError?)
    /// Another program had appended bytes to the protected file, which are in a file of their own now, not protected.
    case appendedBytesSaved(FilePath, byteCount: UInt64, in: FilePath)
    /// A head that is damaged, or commits that no head leads to: what is left of them was saved before it was overwritten.
    case remainsSaved(FilePath, in: FilePath)
    /// What a program has stored in a mapping of the file came while it was locked, and the file has other contents by now: it was saved at its
    /// offsets in a protected file.
    case latePagesSaved(FilePath, in: FilePath)
    /// Some of what a program has stored in a mapping of the file while it was locked does not open: it is kept there, and not in the file.
    case latePagesDamaged(FilePath, in: FilePath)
    /// Whether changes of class were interrupted cannot be told, because their notes cannot be listed.
    case classChangesUnknown(FilePath, DataProtectionError)
    /// The keybag has changed on disk but only one copy could be replaced, or a repair failed.
    case keybagNotRepaired(FilePath, DataProtectionError)
    /// The keybag was replaced, but one of its copies may be the old one, which the old passcode or recovery code opens.
    case oldCopyLeft(FilePath, DataProtectionError)
    /// The TPM still has a secret that no passcode of the keybag needs any more. The next unlock destroys it.
    case hardwareSecretLeft(FilePath, DataProtectionError)
    /// An erased keybag's secret could not be destroyed in the TPM. It opens nothing without a copy of the keybag.
    case hardwareSecretNotErased(handle: UInt32, DataProtectionError)
    /// A damaged copy of the keybag, kept when a good one took its place, may have class keys that were forgotten now.
    case forgottenKeysLeft(FilePath)
    /// A note of queued work makes no sense, and so its work is not done.
    case queueNoteUnreadable(FilePath)
    /// A segment cannot be appended to the log `of`, and never could. It stays where it is, and later lines come before its own.
    case segmentLeftOut(FilePath, of: FilePath, DataProtectionError)
    /// The file of a queued work is neither under its name nor under another one in its directory; the work is dropped.
    case queuedFileGone(FilePath)
    /// inotify(7) cannot be used for that keybag, and so its lock state is looked at once a second.
    case lockStatePolled(FilePath, Errno)
}
