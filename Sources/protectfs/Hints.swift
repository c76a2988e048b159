import DataProtection

extension DataProtectionError {
    /// What to type next, if anything helps. Names only commands that exist.
    var hint: String? {
        switch self {
        case .locked, .lockedMeanwhile: "unlock first: protectfs unlock"
        case .notProtected(let path): "protect it first: protectfs protect \(quoted(path))"
        case .foreignKeybag: "name the directory of its keybag: --keybag DIR"
        case .keybagNotFound: "make one: protectfs init"
        case .keybagExists: "to change its passcode: protectfs passcode"
        case .wouldWeaken: "if that is meant: --allow-weaker"
        case .busy: "try again when the other program has finished"
        case .hasHardLinks(let path, _):
            "copy it and protect the copy; its names are found by: find / -xdev -samefile \(quoted(path))"
        case .keyringUnavailable:
            "the kernel's keyctl(2) is refused here, as some containers do; allow keyctl and add_key in its profile"
        case .lockIncomplete: "try again: protectfs lock --all"
        case .throttled(_, let seconds): "try again in \(spoken(seconds: seconds))"
        case .attemptsNotRecorded: "no passcode is tried without its record; see that the keybag can be written to"
        case .otherDevice: "its files open on the machine, and for the user, that the keybag was made with"
        case .deviceKeyUnusable(let path, _): "put back the file \(quoted(path)) from where it was kept"
        case .keybagDamaged(let directory, _): "put back a copy of the directory \(quoted(directory))"
        case .keybagUnsafe(let path, _): "see who owns it: ls -ld \(quoted(path))"
        case .system(_, _, .noSpace): "make room; what was there before is as it was"
        default: nil
        }
    }
}
