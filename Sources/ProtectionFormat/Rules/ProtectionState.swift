/// What the kernel keyring holds, and so what can be opened.
public enum ProtectionState: String, Sendable, Hashable {
    /// No class keys: since boot nobody has unlocked, or the ring was lost. Class D opens, class B can be created.
    case beforeFirstUnlock
    /// All class keys, a lock that is armed but not due included.
    case unlocked
    /// Class key C only.
    case locked
}

/// What was being done when an error came up.
public enum AttemptedOperation: String, Sendable, Hashable {
    /// Making a new file.
    case create
    /// Opening a file that is there.
    case open
    /// Reading plaintext.
    case read
    /// Writing or appending plaintext.
    case write
    /// Changing the size.
    case truncate
    /// Giving a file another class.
    case changeClass
    /// Changing the passcode of a keybag.
    case changePasscode
    /// Making or forgetting class keys of a keybag.
    case rotateKeys
    /// Giving the class keys of a keybag to a backup.
    case backUp
    /// Bringing files back from a backup.
    case restore
}
