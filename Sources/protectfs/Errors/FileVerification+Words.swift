import DataProtection

extension FileVerification.Finding {
    /// What is found, as the user reads it.
    func failure(_ path: FilePath) -> Failure { Failure(status, message(path), hint: hint(path)) }

    /// The same without a status.
    func message(_ path: FilePath) -> String { "\(quoted(path)) \(words)" }

    /// `notNow` where nothing but a writer's last step is missing.
    private var status: ExitStatus {
        switch self {
        case .headsUnequal, .redoArea, .excess: .notNow
        default: .damaged
        }
    }

    private func hint(_ path: FilePath) -> String? {
        switch self {
        case .oldClassLeft:
            "the next lock or unlock finishes the change; or set the class again: protectfs class FILE CLASS"
        case .headsUnequal, .redoArea, .excess:
            "all its contents are there; the next program that writes to the file and closes it cleans up"
        case .appended(let count):
            "save them: tail -c \(count) \(quoted(path)) >\(quoted(path.withSuffix(".appended"))); "
                + "the next protectfs command that writes to the file moves them to a file of that name with a number"
        case .recordsTorn: "if changes are missing, copy the file before you write to it"
        case .commitsUnreachable: "copy the file before you write to it, or restore it from a backup"
        case .chunksOverwritten: "save what still opens: protectfs unprotect --salvage \(quoted(path))"
        case .headDamaged, .missing, .chunksDamaged, .refused: nil
        }
    }

    private var words: String {
        switch self {
        case .headDamaged(let index):
            "has a damaged or torn head \(index); all its contents can be read through the other head"
        case .commitsUnreachable(let head, let count):
            "has a damaged or torn head \(head), which may have held a later state than the other head"
                + (count > 0 ? ": \(spoken(count, "record")) of later changes cannot be reached" : "")
        case .recordsTorn(let count):
            "has a torn or altered record: its last \(spoken(count, "byte")) belong to changes that were not finished, or are lost"
        case .headsUnequal(let older): "was not closed: head \(older) holds an earlier state"
        case .oldClassLeft(let older):
            "may still open under an earlier class, through head \(older): a class change was interrupted"
        case .redoArea(let count): "was not closed: \(spoken(count, "byte")) of records are not yet applied"
        case .excess(let count): "was not closed: \(spoken(count, "byte")) after its end are unused"
        case .appended(let count):
            "has \(spoken(count, "byte")) after its end that another program appended; "
                + "\(count == 1 ? "it is" : "they are") not protected"
        case .missing(let count): "ends \(spoken(count, "byte")) too early"
        case .chunksDamaged(let bytes):
            "is damaged or altered: bytes \(bytes.lowerBound) to \(bytes.upperBound - 1) do not open"
        case .chunksOverwritten(let bytes):
            "was overwritten by another program: bytes \(bytes.lowerBound) to \(bytes.upperBound - 1) are not encrypted any more"
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
            case .commitsUnreachable(let head, let count):
                ("commitsUnreachable", [("head", .number(Int64(head))), ("records", .number(Int64(count)))])
            case .recordsTorn(let count): ("recordsTorn", [("bytes", .number(Int64(clamping: count)))])
            case .excess(let count): ("excess", [("bytes", .number(Int64(clamping: count)))])
            case .appended(let count): ("appended", [("bytes", .number(Int64(clamping: count)))])
            case .missing(let count): ("missing", [("bytes", .number(Int64(clamping: count)))])
            case .chunksDamaged(let bytes):
                ("chunksDamaged", [("offset", .number(bytes.lowerBound)), ("bytes", .number(Int64(bytes.count)))])
            case .chunksOverwritten(let bytes):
                ("chunksOverwritten", [("offset", .number(bytes.lowerBound)), ("bytes", .number(Int64(bytes.count)))])
            case .refused(let layer, let reason):
                ("refused", [("layer", .string(layer.rawValue)), ("reason", .string(reason))])
            }
        return .object([("kind", .string(kind)), ("isDamage", .bool(isDamage))] + details)
    }
}

extension FilePath {
    /// This path with something behind its name.
    fileprivate func withSuffix(_ suffix: String) -> FilePath { FilePath(bytes: bytes + Array(suffix.utf8)) }
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
