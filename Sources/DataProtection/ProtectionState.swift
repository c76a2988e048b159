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
public enum Operation: String, Sendable, Hashable {
    case create, open, read, write, truncate, changeClass, changePasscode
}
