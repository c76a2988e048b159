import DataProtection

/// Something about a keybag that makes the next unlock fail, or files unreadable, and that people must hear of while files can be saved.
struct KeybagProblem {
    /// What is wrong: lower case, no full stop.
    let message: String
    /// What to do first.
    let hint: String?
    let subject: Subject

    /// What it is about.
    enum Subject {
        /// Keys in the ring that are newer than those of the keybag.
        case age
        case deviceKey
        /// Keys of a keybag that was in the directory before.
        case predecessor
    }

    /// Prints it on standard error.
    func tell() {
        StandardError.line(.warning, message)
        if let hint { StandardError.line(.hint, hint) }
    }
}

extension KeybagHealth {
    /// What is wrong; nothing if the keybag is not there or damaged, which every command says itself.
    var problems: [KeybagProblem] {
        guard case .success(let keybag) = inspection else { return [] }
        var problems: [KeybagProblem] = []
        let option = KeybagOption.words(for: KeybagOption.opened)
        if let newerGeneration {
            let known = keybag.entries.filter { $0.protectionClass != nil }.map(\.generation).max() ?? 0
            problems.append(
                KeybagProblem(
                    message:
                        "the keyring holds class keys of generation \(newerGeneration), the keybag only up to \(known): an older "
                        + "copy of the keybag was put back",
                    hint: KeybagFailure.olderKeybagHint, subject: .age))
        }
        if let interruptedRotation {
            problems.append(
                KeybagProblem(
                    message:
                        "a rotation was interrupted before the keybag got its new class keys, generation \(interruptedRotation)",
                    hint:
                        "load the keybag's own keys: protectfs lock\(option), then protectfs unlock\(option); then rotate again",
                    subject: .age))
        }
        for uuid in loadedPredecessors {
            problems.append(
                KeybagProblem(
                    message: "class keys of keybag \(uuid), which was in this directory before, are still loaded",
                    hint: "evict them: protectfs lock\(option)",
                    subject: .predecessor))
        }
        if let problem = deviceKeyProblem {
            switch problem {
            case .because(KeybagFailure.otherDevice), .because(KeybagFailure.deviceKeyUnusable):
                problems.append(deviceKey(problem))
            default: break  // a disk that cannot be read now says nothing of the key
            }
        }
        return problems
    }

    private func deviceKey(_ problem: DataProtectionError) -> KeybagProblem {
        let end = isUnlocked ? ", and files can be read only until the next lock" : ""
        return KeybagProblem(
            message: "\(problem.message); no passcode opens the keybag\(end)", hint: deviceKeyHint(problem),
            subject: .deviceKey)
    }

    private func deviceKeyHint(_ problem: DataProtectionError) -> String? {
        guard isUnlocked, case .success(let keybag) = inspection, !keybag.hasRecoveryCode else { return problem.hint }
        return "save files now, while they open: protectfs cat FILE > COPY"
    }
}
