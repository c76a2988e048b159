import ProtectionKeys
import SystemPackage

@testable import DataProtection

/// Recovery codes in tests: no secrets, but the library takes them only as such.
extension TestKeybag {
    /// Makes a recovery code at little cost.
    func makeRecoveryCode(passcode: String = TestKeybag.passcode) throws -> RecoveryCode {
        let code = try RecoveryCode.random()
        try keybag.open(passcode: secret(passcode)).setRecoveryCode(code, iterations: Self.iterations)
        return code
    }

    /// Recovers with `code` and returns the new one.
    func recover(with code: borrowing RecoveryCode, passcode: String = "new") throws -> RecoveryCode {
        let new = try RecoveryCode.random()
        try keybag.open(recoveryCode: code).recover(
            passcode: secret(passcode), Self.iterations, recoveryCode: new, Self.iterations)
        return new
    }

    /// Whether the code opens the keybag.
    func opens(with code: borrowing RecoveryCode) throws -> Bool {
        do throws(DataProtectionError) {
            _ = try keybag.open(recoveryCode: code)
            return true
        } catch {
            guard case .because(KeybagFailure.wrongRecoveryCode) = error else { throw error }
            return false
        }
    }
}

extension RecoveryCode {
    /// The code as it is shown, readable.
    borrowing func shown() -> String { grouped().withUnsafeBytes { String(decoding: $0, as: UTF8.self) } }
}

/// A code from text.
func recoveryCode(_ text: String) throws -> RecoveryCode { try RecoveryCode(reading: secret(text)) }
