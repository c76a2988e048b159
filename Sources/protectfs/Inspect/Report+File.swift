import DataProtection

extension Report {
    /// - Parameter keybag: the file's, if it is known here.
    init(_ file: FileInspection, _ keybag: Keybag?) {
        self.init(title: "protected file")
        members.append(("kind", .string("file")))
        if let identity = file.identity { add(identity, keybag, file.origin) }
        if let outline = file.outline { add(outline, of: file) }
        addStorage(of: file)
    }

    private mutating func add(_ identity: FileIdentity, _ keybag: Keybag?, _ origin: OriginMark.Verdict) {
        let isB = identity.protectionClass == .completeUnlessOpen
        let wrap = isB ? "X25519 and AES key wrap" : "AES key wrap"
        let place = keybag.map { quoted($0.directory) } ?? "not available to you"
        rows += [
            ("format", "1, AES-256-GCM, chunks of \(identity.chunkSize) bytes"),
            ("file id", Hexadecimal.text(identity.fileID)),
            ("class", "\(identity.protectionClass.shortName), class key generation \(identity.generation), \(wrap)"),
            ("keybag", "\(identity.keybag), \(place)"), ("origin", identity.origin.words(proven: origin)),
        ]
        members += [
            ("format", .number(1)), ("chunkSize", .number(Int64(identity.chunkSize))),
            ("fileID", .string(Hexadecimal.text(identity.fileID))),
            ("class", .string(identity.protectionClass.shortName)),
            ("classKeyGeneration", .number(Int64(identity.generation))), ("wrap", .string(wrap)),
            ("origin", .string(origin.word)), ("claimedOrigin", .string(identity.origin.verdict.word)),
            ("keybag", .string("\(identity.keybag)")),
        ]
        if let keybag { members += JSON.members(of: keybag.directory, named: "keybagDirectory") }
    }

    private mutating func add(_ outline: FileOutline, of file: FileInspection) {
        let holes = outline.holes.reduce(UInt64(0)) { $0 + UInt64($1.count) }
        let chunks = spoken(outline.chunkCount, "chunk") + (holes > 0 ? ", \(holes) of them holes" : "")
        rows += [
            ("size", spoken(outline.size, "byte") + file.mark), ("contents", outline.isInline ? "in the head" : chunks),
            ("seals", "\(outline.sealCount) of 2147483648 under its key"),
        ]
        let runs = outline.holes.map { run in
            JSON.object([
                ("first", .number(Int64(clamping: run.lowerBound))), ("count", .number(Int64(clamping: run.count))),
            ])
        }
        members += [
            ("size", .number(Int64(clamping: outline.size))), ("authenticity", .string(file.word)),
            ("inline", .bool(outline.isInline)), ("chunks", .number(Int64(clamping: outline.chunkCount))),
            ("holes", .array(runs)), ("seals", .number(Int64(clamping: outline.sealCount))),
        ]
    }

    private mutating func addStorage(of file: FileInspection) {
        var stored = spoken(file.storedLength, "byte")
        if let extent = file.extent, extent != file.storedLength {
            let isMore = file.storedLength > extent
            let difference = isMore ? file.storedLength - extent : extent - file.storedLength
            stored += ", \(difference) \(isMore ? "more" : "fewer") than a file with this content that was closed"
        }
        rows.append(("on disk", stored))
        members.append(("storedBytes", .number(Int64(clamping: file.storedLength))))
        for (index, slot) in file.slots.enumerated() { rows.append(("head \(index)", slot.words)) }
        members.append(("heads", .array(file.slots.map(\.members))))
        if file.redoOffset != 0 {
            let records = spoken(file.recordCount, "record")
            rows.append(("redo area", "\(records) from byte \(file.redoOffset): not closed, or being written to"))
        }
        members += [
            ("redoOffset", .number(Int64(clamping: file.redoOffset))), ("records", .number(Int64(file.recordCount))),
        ]
        if let problem = file.problem { members.append(("error", .string(problem.message))) }
    }
}

extension FileInspection {
    /// What stands behind what nobody has checked.
    fileprivate var mark: String {
        switch authenticity {
        case .authentic: ""
        case .unverified(.because(KeybagFailure.locked)): " (unverified while locked)"
        case .unverified(let error): " (unverified: \(error.message))"
        case .refused: " (refused)"
        case nil: " (unverified: its keybag is not available to you)"
        }
    }

    fileprivate var word: String {
        switch authenticity {
        case .authentic: "authentic"
        case .unverified, nil: "unverified"
        case .refused: "refused"
        }
    }
}

extension FileInspection.Slot {
    fileprivate var words: String {
        guard let wrapCounter, let contentCounter else { return condition.words }
        return "\(condition.words); class change \(wrapCounter), commit \(contentCounter)"
    }

    fileprivate var members: JSON {
        .object([
            ("condition", .string(condition.word)), ("wrapCounter", .optional(wrapCounter)),
            ("contentCounter", .optional(contentCounter)),
        ])
    }
}

extension FileInspection.Slot.Condition {
    fileprivate var word: String {
        switch self {
        case .inForce: "in force"
        case .equal: "equal"
        case .older: "older"
        case .whole: "whole"
        case .absent: "absent"
        case .torn: "damaged"
        case .refused: "refused"
        }
    }

    fileprivate var words: String {
        switch self {
        case .inForce: "in force"
        case .equal: "the same"
        case .older: "an earlier state: not closed, or being written to"
        case .absent: "never written"
        case .whole: "whole in itself"
        case .torn: "damaged or torn: its check is bad"
        case .refused(let reason): "refused: \(reason)"
        }
    }
}

extension OriginMark {
    /// What is proven, by which key, and what the head claims if that is something else.
    fileprivate func words(proven: Verdict) -> String {
        let prover =
            switch key {
            case .none: ""
            case .device: " (under the device key)"
            case .classC: " (under class key first-unlock, generation \(generation))"
            }
        if proven == verdict { return verdict.word + prover }
        return "\(proven.word): the file claims \(verdict.word)\(prover), which no key proves now"
    }
}
