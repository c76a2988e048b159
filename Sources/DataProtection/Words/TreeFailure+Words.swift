package import ProtectedTrees
import ProtectionKeys
import SystemPackage

extension TreeFailure {
    /// What happened and where: lower case, no full stop, paths quoted.
    package var message: String {
        switch self {
        case .notASegment(let path, let log):
            "\(quoted(path)) is not appended to \(quoted(log)): nothing proves that it was written as a part of that log"
        case .backupNotFound(let path): "there is no backup in \(quoted(path))"
        case .wrongBackupPassphrase(let path):
            "wrong passphrase for backup \(quoted(path)), or its keybag was altered"
        case .keyNotInBackup(let path, let protectionClass, let generation, let backup):
            "\(quoted(path)) cannot be copied: backup \(quoted(backup)) does not have its class key "
                + "\(protectionClass.shortName), generation \(generation)"
        case .noRoomForEarlierCopy(let path, let copy, let earlier):
            "\(quoted(path)) is not backed up: its last good copy may be \(quoted(copy)), which stays because there is an earlier one "
                + "already, \(quoted(earlier))"
        case .notForBackup(let path):
            "\(quoted(path)) belongs to the keybag or to the backup itself and cannot be backed up"
        case .setAside(let path):
            "queued work is set aside, because protectfs died each time it ran (\(quoted(path)) counts the tries)"
        case .rulesWithin(let directory, let rules):
            "rules for \(quoted(directory)) must not be inside it: \(quoted(rules))"
        }
    }

    /// What to type next, if anything helps. Names only commands that exist.
    package var hint: String? {
        switch self {
        case .notASegment(let path, let log):
            "look at it: protectfs cat \(quoted(path)); if its lines belong to the log: "
                + "protectfs cat \(quoted(path)) | protectfs write --append \(quoted(log)); then: rm \(quoted(path)) && protectfs queue run"
        case .setAside(let path): "report it as a bug; to try again: rm \(quoted(path)) && protectfs queue run"
        case .keyNotInBackup(_, _, _, let backup):
            "while unlocked: protectfs backup --new-keybag --to \(quoted(backup))\(ProposedKeybag.words(for: ProposedKeybag.opened))"
        case .noRoomForEarlierCopy(_, _, let earlier):
            "back up once while unlocked; if that fails, too, compare the copies, then: rm \(quoted(earlier))"
        default: nil
        }
    }
}
