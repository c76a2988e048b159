import DurableFiles
import FoundationEssentials
package import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension KeybagFailure {
    /// What happened and where: lower case, no full stop, paths quoted.
    package var message: String {
        switch self {
        case .locked(let path, let protectionClass, let operation, let state, let since):
            lockedMessage(path, protectionClass, operation, state, since)
        case .keyLost(let path, let protectionClass, let generation, let isNewer):
            "\(quoted(path)) needs class key \(protectionClass.shortName), generation \(generation), "
                + (isNewer
                    ? "which is newer than its keybag: an older copy of the keybag was put back, or another device rotated its copy"
                    : "which its keybag does not have: it was forgotten, or another device made it")
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
        case .firstUnlockSecret(let keybag, let problem): problem.message(quoted(keybag))
        case .hardware(let keybag, let problem): problem.message(quoted(keybag))
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
        case .keysUnreadable(let keybag):
            "a class key of keybag \(quoted(keybag)) is in the kernel keyring but cannot be read; the lock state is unknown"
        case .keysIncomplete(let keybag):
            "only some class keys of keybag \(quoted(keybag)) are in the kernel keyring: some complete or unless-open files open"
        case .keysElsewhere(let keybag, let namespaces):
            "keybag \(quoted(keybag)) was unlocked in "
                + (namespaces.isEmpty
                    ? "another user namespace"
                    : "user namespace " + namespaces.map(String.init).joined(separator: " and "))
                + " and not locked there; a lock here cannot evict keys there"
        case .tooManyNamespaces(let keybag, let namespaces):
            "keybag \(quoted(keybag)) was unlocked in \(spoken(namespaces.count, "other user namespace")) and not locked there; "
                + "an unlock in one more cannot be recorded, and a lock elsewhere would not notice it"
        case .outOfReachOfLocks(let keybag):
            "keybag \(quoted(keybag)) is used outside this user namespace; a lock there could not evict keys loaded here"
        case .configuration(let path, let line, let reason): "\(quoted(path)), line \(line): \(reason)"
        case .mountUnanswered(let point, let errno):
            "the mount at \(quoted(point)) does not say where its files are stored: \(errno.spoken)"
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

    /// Why, if more is known than what the message begins with.
    var reason: String? {
        switch self {
        case .locked(_, _, _, let state, let since): state.spoken(since: since)
        case .keybagDamaged(_, let reason), .passcodeUnusable(let reason), .deviceKeyUnusable(_, let reason),
            .configuration(_, _, let reason):
            reason
        case .keyringUnavailable(let errno), .lockIncomplete(_, let errno), .attemptsNotRecorded(_, let errno),
            .keybagUnconfirmed(_, let errno), .lockUnproven(_, .unwritable(let errno)),
            .mountUnanswered(_, let errno):
            errno.spoken
        default: nil
        }
    }

    /// What to type next, if anything helps. Names only commands that exist.
    package var hint: String? {
        switch self {
        case .locked(let path, _, _, _, _): "unlock first: protectfs unlock\(keybagOption(for: path))"
        case .lockedMeanwhile(let directory): "unlock first: protectfs unlock\(ProposedKeybag.words(for: directory))"
        case .keybagNotFound(let directory): notFoundHint(directory)
        case .keybagIntact(_, let there, let exported):
            there == exported
                ? nil
                : "to have both, name another directory: --keybag DIR; if nothing was protected under the one that is there: protectfs erase"
        case .keybagExists(let directory):
            "to change its passcode: protectfs passcode\(ProposedKeybag.words(for: directory))"
        case .keyLost(_, _, _, isNewer: true): Self.olderKeybagHint
        case .keyringUnavailable(.diskQuotaExceeded):
            "the kernel limits each user's keys, and an unlocked keybag takes about 380 bytes of 20,000: lock keybags that are not "
                + "used, or run: sudo sysctl kernel.keys.maxkeys=2000 kernel.keys.maxbytes=200000"
        case .keyringUnavailable(.resourceTemporarilyUnavailable):
            "the kernel allows this user no more processes and threads: end some of them, or raise the limit: ulimit -u"
        case .keyringUnavailable:
            "the kernel's keyctl(2) is refused here, as some containers do; allow keyctl and add_key in its profile"
        case .lockIncomplete:
            "try again: protectfs lock --all; if that fails too, a restart of the machine removes the key"
        case .mountUnanswered(let point, _):
            "if its server was killed: protectfs unmount \(quoted(point))"
        case .weakDerivation:
            "somebody may have changed the file to learn your passcode: put back an export or a backup of it"
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
        case .wrongRecoveryCode: "a code can set a new passcode only once: look for a newer code"
        case .firstUnlockSecret(let directory, let problem): problem.hint(ProposedKeybag.words(for: directory))
        case .hardware(let directory, let problem):
            problem.hint(ProposedKeybag.words(for: directory), orRecovery: recoveryHint(directory))
        case .tooManyGenerations(let directory):
            "delete the class keys that no file needs: protectfs rotate --forget\(ProposedKeybag.words(for: directory))"
        case .noRecoveryCode(let directory):
            "make one, with the passcode: protectfs recovery new\(ProposedKeybag.words(for: directory))"
        case .deviceKeyUnusable(let path, _):
            "repair \(quoted(path)); or move it away and use the recovery code: protectfs passcode --with-recovery-code"
        case .keybagDamaged(_, reason: KeybagFailure.olderCopyReason): Self.olderKeybagHint
        case .keybagDamaged(let directory, _):
            "put back an export: protectfs recovery restore\(ProposedKeybag.words(for: directory)) FILE; or a copy of the directory"
        case .keybagUnconfirmed:
            "the disk may be failing: keep the old and the new passcode and recovery code until one of them opens it after a restart"
        case .lockUnproven(let directory, let doubt):
            doubt.hint(directory, "protectfs lock\(ProposedKeybag.words(for: directory))")
        default: nil
        }
    }

    /// The way out when the keybag is older than a file or than the keys in the ring. A restore leaves a whole keybag alone.
    package static let olderKeybagHint =
        "put back the newest export: move keybag.0 and keybag.1 of the keybag's directory away, then protectfs recovery restore FILE; "
        + "if another device rotated, read the file there; if you mean to use this copy, protectfs unlock makes it the one in force"

    /// A keybag that was there is put back, not replaced by a new one, which opens none of its files.
    private func notFoundHint(_ directory: FilePath) -> String {
        let option = ProposedKeybag.words(for: directory)
        guard KeybagRegistry.wasUsed(in: directory) else { return "make one: protectfs init\(option)" }
        return
            "put back an export of the keybag that was here: protectfs recovery restore\(option) FILE; or a copy of the directory; "
            + "if you moved it: --keybag DIR"
    }

    /// The way out when the passcode or the device key is lost, if the keybag has a recovery code.
    private func recoveryHint(_ directory: FilePath) -> String? {
        guard let keybag = try? Keybag(at: directory), keybag.hasRecoveryCode else { return nil }
        return "with the recovery code: protectfs passcode --with-recovery-code\(ProposedKeybag.words(for: directory))"
    }

    /// What names the keybag of a file; for one that is not protected, the keybag of this command.
    private func keybagOption(for path: FilePath) -> String {
        guard let info = try? ProtectedFileInfo(of: path), let keybag = try? Keybag.remembered(info.keybag) else {
            return ProposedKeybag.words(for: ProposedKeybag.opened)
        }
        return ProposedKeybag.words(for: keybag.directory)
    }
}
