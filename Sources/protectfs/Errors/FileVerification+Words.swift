import DataProtection

extension FileVerification.Finding {
    /// What is found, as the user reads it.
    func failure(_ path: FilePath) -> Failure {
        Failure(.damaged, "\(quoted(path)) \(words)", hint: hint)
    }

    private var hint: String? {
        switch self {
        case .oldClassLeft: "the next lock or unlock finishes it, or say it again: protectfs class FILE CLASS"
        default: isDamage ? nil : "nothing is lost; the next program that writes to it and closes it tidies up"
        }
    }

    private var words: String {
        switch self {
        case .headDamaged(let index):
            "has a damaged or torn head \(index); all its contents are there, by the other one"
        case .headsUnequal(let older): "was not closed: head \(older) holds an earlier state"
        case .oldClassLeft(let older):
            "may still open by an earlier class, by head \(older): a change of class was interrupted"
        case .redoArea(let count): "was not closed: \(spoken(count, "byte")) of records wait to be put in place"
        case .excess(let count): "has \(spoken(count, "byte")) behind its end, which mean nothing"
        case .missing(let count): "ends \(spoken(count, "byte")) too early"
        case .chunksDamaged(let bytes):
            "is damaged or altered: bytes \(bytes.lowerBound) to \(bytes.upperBound - 1) do not open"
        case .refused(let layer, let reason): "is damaged or altered (\(layer.rawValue): \(reason))"
        }
    }

    /// For `--json`.
    var members: JSON {
        let (kind, details): (String, [(String, JSON)]) =
            switch self {
            case .headDamaged(let index): ("headDamaged", [("head", .number(Int64(index)))])
            case .headsUnequal(let older): ("headsUnequal", [("older", .number(Int64(older)))])
            case .oldClassLeft(let older): ("oldClassLeft", [("older", .number(Int64(older)))])
            case .redoArea(let count): ("redoArea", [("bytes", .number(Int64(clamping: count)))])
            case .excess(let count): ("excess", [("bytes", .number(Int64(clamping: count)))])
            case .missing(let count): ("missing", [("bytes", .number(Int64(clamping: count)))])
            case .chunksDamaged(let bytes):
                ("chunksDamaged", [("offset", .number(bytes.lowerBound)), ("bytes", .number(Int64(bytes.count)))])
            case .refused(let layer, let reason):
                ("refused", [("layer", .string(layer.rawValue)), ("reason", .string(reason))])
            }
        return .object([("kind", .string(kind)), ("isDamage", .bool(isDamage))] + details)
    }
}

extension OriginMark.Verdict {
    /// As the command spells it.
    var word: String {
        switch self {
        case .unverified: "unverified"
        case .thisDevice: "this device"
        case .verified: "verified"
        }
    }
}
