import DataProtection

/// Whether the TPM protects the keybag as it could.
extension DoctorFacts {
    /// nil: there is nothing to say.
    var hardwareFinding: DoctorFinding? {
        guard let hardware else { return nil }
        switch hardware.facts {
        case .failure(let error):
            guard hardware.isBound else {
                return .unknown(
                    "tpm", "there is one, and the keybag is not bound to it: \(error.hint ?? error.message)")
            }
            return .problem("tpm", error.message, fix: error.hint)
        case .success(let facts):
            guard hardware.isBound else {
                return .ok("tpm", "there is one; to bind the keybag to it: protectfs tpm enroll\(keybagOption)")
            }
            return weakness(facts) ?? .ok("tpm", "the keybag is bound: \(hardware.text)")
        }
    }

    private func weakness(_ facts: HardwareFacts) -> DoctorFinding? {
        // The values of the commands: after 31 wrong ones, one more every 10 minutes. By them a 6-digit passcode lasts for years.
        let settings = "sudo tpm2_dictionarylockout -s -n 31 -t 600 -l 86400"
        if facts.isLockedOut {
            return .warning(
                "tpm", "too many passcodes were wrong, here or in another program: it accepts none now",
                fix: "wait, or use the recovery code: protectfs passcode --with-recovery-code\(keybagOption)")
        }
        if !facts.lockoutHasPassword {
            return .warning(
                "tpm",
                "anybody with this machine can reset its count of wrong passcodes; a 6-digit passcode then lasts about a day",
                fix: "\(settings) && sudo tpm2_changeauth -c lockout file:CODE; keep CODE with the recovery code")
        }
        guard facts.maximumTries >= 10 else {
            return .warning(
                "tpm", "it accepts only \(facts.maximumTries) wrong passcodes, and a power cut can count as one",
                fix: "\(settings) -p file:CODE")
        }
        return nil
    }
}
