import DataProtection

extension DataProtectionError {
    /// What to type next, if anything helps. Names only commands that exist.
    package var hint: String? {
        switch self {
        case .locked(let path, _, _, _, _): "unlock first: protectfs unlock\(keybagOption(for: path))"
        case .lockedMeanwhile(let directory): "unlock first: protectfs unlock\(KeybagOption.words(for: directory))"
        case .notProtected(let path): "protect it first: protectfs protect \(quoted(path))"
        case .mangled: "put back a copy of the file from a backup, and keep this one until that copy opens"
        case .damaged(let path, .chunk, _, _): "save what still opens: protectfs unprotect --salvage \(quoted(path))"
        case .foreignKeybag: "name the directory of its keybag: --keybag DIR"
        case .keybagNotFound(let directory): "make one: protectfs init\(KeybagOption.words(for: directory))"
        case .keybagIntact(_, let there, let exported):
            there == exported ? nil : "to have both, name another directory: --keybag DIR"
        case .keybagExists(let directory):
            "to change its passcode: protectfs passcode\(KeybagOption.words(for: directory))"
        case .wouldWeaken: "if that is meant: --allow-weaker"
        case .ownedByAnother: "if its owner may read the plaintext: --allow-other-owner"
        case .needsRekey(let path): "give it a new one: protectfs class --rekey \(quoted(path))"
        case .busy: "try again when the other program has finished"
        case .tooSparse: "make room, or split the file into parts with 32 holes each"
        case .hasHardLinks(let path, _):
            "work on a copy of it; its names are found by: find / -xdev -samefile \(quoted(path))"
        case .database(let path, let database):
            path == database
                ? "protect a copy of it, which sqlite3 makes with .backup; if SQLite need not open it: "
                    + "protectfs protect --include databases \(quoted(path))"
                : "close the programs that use the database, then protect the database itself"
        case .databaseInUse(let path, _):
            "close the programs that use it, then run: sqlite3 \(quoted(path)) 'PRAGMA journal_mode=DELETE'"
        case .keyringUnavailable(.diskQuotaExceeded):
            "the kernel limits each user's keys, and an unlocked keybag takes about 340 bytes of 20,000: lock keybags that are not "
                + "used, or run: sudo sysctl kernel.keys.maxkeys=2000 kernel.keys.maxbytes=200000"
        case .keyringUnavailable:
            "the kernel's keyctl(2) is refused here, as some containers do; allow keyctl and add_key in its profile"
        case .lockIncomplete: "try again: protectfs lock --all"
        case .weakDerivation:
            "somebody may have changed the file to learn your passcode: put back an export or a backup of it"
        case .setAside(let path): "report it as a bug; to try again: rm \(quoted(path)) && protectfs queue run"
        case .usedElsewhere(let path): "end what uses it there, then take it over: rm \(quoted(path))"
        case .keysUnreadable(let directory): "evict it: protectfs lock\(KeybagOption.words(for: directory))"
        case .keysElsewhere(let directory, let namespaces):
            "lock \(UserNamespace.place(namespaces))protectfs lock\(KeybagOption.words(for: directory))"
        case .outOfReachOfLocks(let directory):
            "unlock outside the container or namespace; or here, if you will lock here: protectfs unlock --in-namespace"
                + KeybagOption.words(for: directory)
        case .throttled(_, let seconds): "try again in \(spoken(seconds: seconds))"
        case .attemptsNotRecorded: "no passcode is tried without its record; see that the keybag can be written to"
        case .otherDevice(let directory, _):
            recoveryHint(directory) ?? "its files open on the machine, and for the user, that the keybag was made with"
        case .wrongPasscode(let directory, _, _): recoveryHint(directory)
        case .keyNotInBackup(_, _, _, let backup):
            "while unlocked: protectfs backup --new-keybag --to \(quoted(backup))\(KeybagOption.words(for: KeybagOption.opened))"
        case .wrongRecoveryCode: "a code is spent when a new passcode was set with it; look for a later one"
        case .tooManyGenerations(let directory):
            "forget those that no file needs: protectfs rotate --forget\(KeybagOption.words(for: directory))"
        case .noRecoveryCode(let directory):
            "make one, with the passcode: protectfs recovery new\(KeybagOption.words(for: directory))"
        case .deviceKeyUnusable(let path, _):
            "put \(quoted(path)) right; or move it away, and use the recovery code: protectfs passcode --with-recovery-code"
        case .keybagDamaged(let directory, _):
            "put back an export: protectfs recovery restore\(KeybagOption.words(for: directory)) FILE; or a copy of the directory"
        case .keybagUnconfirmed:
            "the disk may be failing; keep old and new passcode and recovery code until, after a restart, one has opened it"
        case .keybagUnsafe(let path, _): "see who owns it: ls -ld \(quoted(path))"
        case .system(_, _, .noSpace): "make room; what was there before is as it was"
        default: nil
        }
    }

    /// The way out when the passcode or the device key is lost, if the keybag has a recovery code.
    private func recoveryHint(_ directory: FilePath) -> String? {
        guard let keybag = try? Keybag(at: directory), keybag.hasRecoveryCode else { return nil }
        return "with the recovery code: protectfs passcode --with-recovery-code\(KeybagOption.words(for: directory))"
    }

    /// What names the keybag of a file; for one that is not protected, the keybag of this command.
    private func keybagOption(for path: FilePath) -> String {
        guard let info = try? ProtectedFileInfo(of: path), let keybag = try? Keybag.remembered(info.keybag) else {
            return KeybagOption.words(for: KeybagOption.opened)
        }
        return KeybagOption.words(for: keybag.directory)
    }
}
