public import SystemPackage

/// Why the TPM that a keybag is bound to, or is to be bound to, does not help now. None of these counts as a wrong passcode.
public enum HardwareProblem: Error, Hashable, Sendable {
    // MARK: it cannot be used here

    /// A shared object of the TPM Software Stack is not installed.
    case libraryMissing(String)
    /// The machine has no TPM 2.0.
    case deviceMissing(FilePath)
    /// This user may not open the device.
    case permissionDenied(FilePath)
    /// A command of the TPM failed. `code` is a TSS2_RC.
    case failed(command: String, code: UInt32)

    // MARK: it does not open the keybag

    /// The TPM refuses all passcodes, the right one included: too many were wrong, of this keybag or of another program. It forgets one after
    /// `oneTryAfter`; nil: not known.
    case lockedOut(oneTryAfter: Duration?)
    /// Another TPM, or this one was cleared.
    case otherModule
    /// The TPM does not have the secret any more, and none that is newer.
    case secretMissing
    /// The TPM has a newer secret: an older copy of the keybag was put back.
    case olderKeybag
    /// The TPM accepted the passcode, and the passcode slot does not open: the keybag was altered, or an older copy was put back.
    case altered

    // MARK: it cannot be bound

    /// The TPM has no room for another secret.
    case noRoom
    /// The owner hierarchy of the TPM has a password.
    case ownerHasPassword
    /// The keybag is bound already.
    case alreadyBound
    /// The keybag is not bound.
    case notBound
}
