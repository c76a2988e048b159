package import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionKeys
import SystemPackage

extension DataProtectionError {
    /// What to type next, if anything helps. Names only commands that exist.
    package var hint: String? {
        switch self {
        case .locked(let path, _, _, _, _): "unlock first: protectfs unlock\(keybagOption(for: path))"
        case .lockedMeanwhile(let directory): "unlock first: protectfs unlock\(ProposedKeybag.words(for: directory))"
        case .notProtected(let path): "protect it first: protectfs protect \(quoted(path))"
        case .mangled: "restore the file from a backup, and keep this damaged file until the restored file opens"
        case .damaged(let path, .chunk, _, _): "save what still opens: protectfs unprotect --salvage \(quoted(path))"
        case .foreignKeybag: "name the directory of its keybag: --keybag DIR"
        case .keybagNotFound(let directory): notFoundHint(directory)
        case .keybagIntact(_, let there, let exported):
            there == exported ? nil : "to have both, name another directory: --keybag DIR"
        case .keybagExists(let directory):
            "to change its passcode: protectfs passcode\(ProposedKeybag.words(for: directory))"
        case .keyLost(_, _, _, isNewer: true): Self.olderKeybagHint
        case .otherKey: "if another device has a copy of this keybag and rotated it, read the file there"
        case .unverifiedOrigin(let path, _):
            "if you trust its contents, copy them to a new file: protectfs cat \(quoted(path)) | protectfs write NEW"
        case .notASegment(let path, let log):
            "look at it: protectfs cat \(quoted(path)); if its lines belong to the log: "
                + "protectfs cat \(quoted(path)) | protectfs write --append \(quoted(log)); then: rm \(quoted(path)) && protectfs queue run"
        case .wouldWeaken: "to allow that: --allow-weaker"
        case .ownedByAnother: "if its owner may read the plaintext: --allow-other-owner"
        case .needsRekey(let path): "give it a new one: protectfs class --rekey \(quoted(path))"
        case .busy: "try again when the other program has finished"
        case .tooSparse: "make room, or split the file into parts with 32 holes each"
        case .hasHardLinks(let path, _):
            "work on a copy of it; to list its names: find / -xdev -samefile \(quoted(path))"
        case .database(let path, let database):
            path == database
                ? "protect a copy of it, made with the .backup command of sqlite3; or, if SQLite does not have to open it: "
                    + "protectfs protect --include databases \(quoted(path))"
                : "close the programs that use the database, then protect the database itself"
        case .databaseInUse(let path, _):
            "close the programs that use it, then run: sqlite3 \(quoted(path)) 'PRAGMA journal_mode=DELETE'"
        case .keyringUnavailable(.diskQuotaExceeded):
            "the kernel limits each user's keys, and an unlocked keybag takes about 340 bytes of 20,000: lock keybags that are not "
                + "used, or run: sudo sysctl kernel.keys.maxkeys=2000 kernel.keys.maxbytes=200000"
        case .keyringUnavailable(.resourceTemporarilyUnavailable):
            "the kernel allows this user no more processes and threads: end some of them, or raise the limit: ulimit -u"
        case .keyringUnavailable:
            "the kernel's keyctl(2) is refused here, as some containers do; allow keyctl and add_key in its profile"
        case .lockIncomplete:
            "try again: protectfs lock --all; if that fails too, a restart of the machine removes the key"
        case .weakDerivation:
            "somebody may have changed the file to learn your passcode: put back an export or a backup of it"
        case .setAside(let path): "report it as a bug; to try again: rm \(quoted(path)) && protectfs queue run"
        case .usedElsewhere(let path): "stop the programs that use it there, then take it over: rm \(quoted(path))"
        case .keysUnreadable(let directory): "evict it: protectfs lock\(ProposedKeybag.words(for: directory))"
        case .keysIncomplete(let directory): "evict them: protectfs lock\(ProposedKeybag.words(for: directory))"
        case .keysElsewhere(let directory, let namespaces), .tooManyNamespaces(let directory, let namespaces):
            UserNamespace.lockHint(namespaces, "protectfs lock\(ProposedKeybag.words(for: directory))")
        case .outOfReachOfLocks(let directory):
            "unlock outside the container or namespace; or here, if you will lock here: protectfs unlock --in-namespace"
                + ProposedKeybag.words(for: directory)
        case .throttled(_, let time): "try again in \(spoken(time))"
        case .attemptsNotRecorded: "each try is recorded before the passcode is checked: make the keybag writable"
        case .otherDevice(let directory, _):
            recoveryHint(directory) ?? "its files open only for the user and on the machine that made the keybag"
        case .wrongPasscode(let directory, _, _): recoveryHint(directory)
        case .keyNotInBackup(_, _, _, let backup):
            "while unlocked: protectfs backup --new-keybag --to \(quoted(backup))\(ProposedKeybag.words(for: ProposedKeybag.opened))"
        case .wrongRecoveryCode: "a code can set a new passcode only once: look for a newer code"
        case .tooManyGenerations(let directory):
            "delete the class keys that no file needs: protectfs rotate --forget\(ProposedKeybag.words(for: directory))"
        case .noRecoveryCode(let directory):
            "make one, with the passcode: protectfs recovery new\(ProposedKeybag.words(for: directory))"
        case .deviceKeyUnusable(let path, _):
            "repair \(quoted(path)); or move it away and use the recovery code: protectfs passcode --with-recovery-code"
        case .keybagDamaged(let directory, _):
            "put back an export: protectfs recovery restore\(ProposedKeybag.words(for: directory)) FILE; or a copy of the directory"
        case .keybagUnconfirmed:
            "the disk may be failing: keep the old and the new passcode and recovery code until one of them opens it after a restart"
        case .keybagUnsafe(let path, _):
            ownerHint(path) ?? "see who owns it: ls -ld \(quoted(path))"
        case .lockUnproven(let directory, let doubt):
            doubt.hint(directory, "protectfs lock\(ProposedKeybag.words(for: directory))")
        case .system(_, _, .noSpace): "free some disk space; nothing that was there before has changed"
        default: nil
        }
    }

    /// The way out when the keybag is older than a file or than the keys in the ring. A restore leaves a whole keybag alone.
    package static let olderKeybagHint =
        "put back the newest export: move keybag.0 and keybag.1 of the keybag's directory away, then protectfs recovery restore FILE; "
        + "if another device rotated, read the file there"

    /// A keybag that was there is put back, not replaced by a new one, which opens none of its files.
    private func notFoundHint(_ directory: FilePath) -> String {
        let option = ProposedKeybag.words(for: directory)
        guard Keybag.wasUsed(in: directory) else { return "make one: protectfs init\(option)" }
        return
            "put back an export of the keybag that was here: protectfs recovery restore\(option) FILE; or a copy of the directory; "
            + "if you moved it: --keybag DIR"
    }

    /// The way out when the passcode or the device key is lost, if the keybag has a recovery code.
    private func recoveryHint(_ directory: FilePath) -> String? {
        guard let keybag = try? Keybag(at: directory), keybag.hasRecoveryCode else { return nil }
        return "with the recovery code: protectfs passcode --with-recovery-code\(ProposedKeybag.words(for: directory))"
    }

    /// The way out when something belongs to another user.
    private func ownerHint(_ path: FilePath) -> String? {
        guard let owner = OwnDirectory.owner(of: path), owner != geteuid() else { return nil }
        return "run the command as its owner, for example with sudo -u '#\(owner)'"
    }

    /// What names the keybag of a file; for one that is not protected, the keybag of this command.
    private func keybagOption(for path: FilePath) -> String {
        guard let info = try? ProtectedFileInfo(of: path), let keybag = try? Keybag.remembered(info.keybag) else {
            return ProposedKeybag.words(for: ProposedKeybag.opened)
        }
        return ProposedKeybag.words(for: keybag.directory)
    }
}
