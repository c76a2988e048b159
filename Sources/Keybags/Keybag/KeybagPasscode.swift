import DurableFiles
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

extension Keybag {
    /// Replaces the passcode: only the keybag key is wrapped anew, no file is touched, however many there are.
    ///
    /// New salt, new cost. When this returns no wrap of the old passcode is left in the keybag's directory; copies made
    /// earlier still open with it until the class keys are rotated.
    /// - Parameters:
    ///   - current: the passcode so far; the attempt is counted.
    ///   - new: 1 to 1,024 bytes.
    /// - Throws: `locked` unless the keybag is unlocked; `wrongPasscode`, `throttled`, `passcodeUnusable`, `keybagUnconfirmed`.
    public func changePasscode(
        from current: borrowing SecretBytes, to new: borrowing SecretBytes
    ) throws(DataProtectionError) {
        try changePasscode(from: current, to: new, iterations: nil)
    }

    /// The same with a given number of iterations: tests use few.
    package func changePasscode(
        from current: borrowing SecretBytes, to new: borrowing SecretBytes, iterations: Int?
    ) throws(DataProtectionError) {
        try Self.checkPasscode(new)
        // Before an attempt is counted.
        guard try state() == .unlocked else { throw .locked(self, directory, .complete, .changePasscode) }
        try open(passcode: current).changePasscode(to: new, iterations: iterations)
    }
}

extension OpenedKeybag {
    /// Replaces the passcode of a keybag that was opened by its passcode. See ``Keybag/changePasscode(from:to:)``.
    ///
    /// - Throws: `locked` unless the keybag is unlocked; `passcodeUnusable`, `busy`.
    public consuming func changePasscode(to new: borrowing SecretBytes) throws(DataProtectionError) {
        try changePasscode(to: new, iterations: nil)
    }

    package consuming func changePasscode(
        to new: borrowing SecretBytes, iterations: Int?
    ) throws(DataProtectionError) {
        try Keybag.checkPasscode(new)
        guard try keybag.state() == .unlocked else {
            throw .locked(keybag, keybag.directory, .complete, .changePasscode)
        }
        try setPasscode(new, iterations: iterations, binding)
    }
}
