import DataProtection

/// The TPM beside a keybag, for `status`, `tpm status` and `doctor`. Read without a passcode; no try is spent.
struct HardwareReport {
    /// Whether the keybag is bound to it.
    let isBound: Bool
    /// What the TPM says of itself, or why it cannot be asked.
    let facts: Result<HardwareFacts, DataProtectionError>

    init(isBound: Bool, _ facts: Result<HardwareFacts, DataProtectionError>) {
        self.isBound = isBound
        self.facts = facts
    }

    init(of keybag: Keybag) {
        isBound = keybag.isBoundToHardware
        do throws(DataProtectionError) { facts = .success(try keybag.hardwareFacts()) } catch {
            facts = .failure(error)
        }
    }

    /// Whether the machine has none, or nothing that could use it.
    var isAbsent: Bool {
        if case .failure(.because(KeybagFailure.hardware(_, .deviceMissing))) = facts { return true }
        if case .failure(.because(KeybagFailure.hardware(_, .libraryMissing))) = facts { return true }
        return false
    }

    /// One line, without a line feed.
    var text: String {
        switch facts {
        case .failure(let error): return "TPM: \(error.message)"
        case .success(let facts):
            let kind = facts.isVirtual ? "virtual TPM" : "TPM"
            let maker = facts.maker.isEmpty ? "" : " (\(facts.maker))"
            let tries =
                facts.isLockedOut
                ? "accepts no passcode now" : "tries left \(facts.triesLeft) of \(facts.maximumTries)"
            return "\(kind)\(maker), \(tries)" + (facts.oneTryAfter.map { ", one back every \(spoken($0))" } ?? "")
        }
    }

    var json: JSON {
        switch facts {
        case .failure(let error):
            .object([("kind", .string("tpm")), ("usable", .bool(false)), ("problem", .string(error.message))])
        case .success(let facts):
            .object([
                ("kind", .string("tpm")), ("usable", .bool(true)), ("problem", .null),
                ("maker", .string(facts.maker)), ("virtual", .bool(facts.isVirtual)),
                ("triesLeft", .number(Int64(facts.triesLeft))),
                ("maximumTries", .number(Int64(facts.maximumTries))),
                ("oneTryAfter", .optional(facts.oneTryAfter?.wholeSeconds)), ("lockedOut", .bool(facts.isLockedOut)),
                ("countHasPassword", .bool(facts.lockoutHasPassword)),
            ])
        }
    }
}
