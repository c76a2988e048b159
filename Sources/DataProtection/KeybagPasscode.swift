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
    /// - Throws: `locked` unless the keybag is unlocked; `wrongPasscode`, `throttled`, `passcodeUnusable`.
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
        guard try state() == .unlocked else { throw lockedError(directory, .complete, .changePasscode) }
        let key = try openWithPasscode(current, try file.load())
        let cost = if let iterations { iterations } else { try Self.calibratedIterations() }
        let slot = try withDeviceKey { device throws(DataProtectionError) in
            do throws(KeyError) { return try Self.passcodeSlot(new, cost, device, key) } catch {
                throw .cryptography(error)
            }
        }
        try file.replace { loaded throws(DataProtectionError) in
            do throws(KeyError) {
                guard try KeybagCopy.isMACGood(loaded.bytes, under: key) else { throw .authenticationFailed }
                var copy = loaded.copy
                copy.sequence += 1
                copy.slots = copy.slots.filter { $0.kind != .passcode } + [slot]
                return try copy.encoded(under: key)
            } catch .authenticationFailed {
                throw .keybagDamaged(directory, reason: "its authentication code is wrong")
            } catch {
                throw .cryptography(error)
            }
        }
        try reload()
    }
}
