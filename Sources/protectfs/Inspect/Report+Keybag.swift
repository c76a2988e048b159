import DataProtection

extension Report {
    init(_ keybag: KeybagInspection) {
        self.init(title: keybag.copies.count == 1 ? "copy of a keybag" : "keybag")
        rows = [
            ("UUID", "\(keybag.uuid)"), ("sequence", "\(keybag.sequence)"), ("device key", quoted(keybag.deviceKey)),
        ]
        for copy in keybag.copies {
            rows.append((copy.path.lastComponent?.string ?? "copy", copy.condition.words))
        }
        for slot in keybag.slots {
            let weak = slot.isWeak ? ": few; renew it with protectfs passcode" : ""
            rows.append((slot.kind.rawValue, "PBKDF2-HMAC-SHA256, \(slot.iterations) iterations\(weak)"))
        }
        for entry in keybag.entries {
            let use = entry.isActive ? "active" : "retired: opens old files"
            rows.append((entry.name, "generation \(entry.generation), \(use), id \(Hexadecimal.text(entry.id))"))
        }
        members = Self.members(keybag)
    }

    private static func members(_ keybag: KeybagInspection) -> [(String, JSON)] {
        [("kind", .string("keybag")), ("uuid", .string("\(keybag.uuid)"))]
            + [("sequence", .number(Int64(clamping: keybag.sequence)))]
            + JSON.members(of: keybag.deviceKey, named: "deviceKey") + [
                (
                    "copies",
                    .array(
                        keybag.copies.map {
                            .object(JSON.members(of: $0.path) + [("condition", .string($0.condition.word))])
                        })
                ),
                (
                    "slots",
                    .array(
                        keybag.slots.map {
                            .object([
                                ("kind", .string($0.kind.rawValue)), ("prf", .string("HMAC-SHA256")),
                                ("iterations", .number(Int64($0.iterations))), ("weak", .bool($0.isWeak)),
                            ])
                        })
                ),
                (
                    "entries",
                    .array(
                        keybag.entries.map {
                            .object([
                                ("kind", .number(Int64($0.kind))),
                                ("class", $0.protectionClass.map { .string($0.shortName) } ?? .null),
                                ("generation", .number(Int64($0.generation))), ("active", .bool($0.isActive)),
                                ("id", .string(Hexadecimal.text($0.id))),
                            ])
                        })
                ),
            ]
    }
}

extension KeybagInspection {
    /// What is bad about the copies.
    var failures: [Failure] {
        copies.compactMap { copy in
            guard case .damaged(let reason) = copy.condition else { return nil }
            return Failure(
                .damaged, "\(quoted(copy.path)) is damaged or altered: \(reason)",
                hint: "the next unlock repairs it from the second copy: protectfs unlock")
        }
    }
}

extension KeybagInspection.Copy.Condition {
    fileprivate var word: String {
        switch self {
        case .inForce: "in force"
        case .equal: "equal"
        case .other: "other"
        case .damaged: "damaged"
        case .missing: "missing"
        }
    }

    fileprivate var words: String {
        switch self {
        case .inForce: "in force"
        case .equal: "the same"
        case .other(let sequence): "another one, of sequence \(sequence); the next unlock makes it the same"
        case .damaged(let reason): "damaged: \(reason)"
        case .missing: "missing; the next unlock makes it"
        }
    }
}

extension KeybagInspection.Entry {
    fileprivate var name: String {
        guard let protectionClass else { return "kind \(kind)" }
        return kind == 0 ? protectionClass.shortName : "secrets \(protectionClass.shortName)"
    }
}
