import DataProtection

/// What is said of the files of an upgrade, while it is on and at its end.
final class UpgradeReport {
    let outcome: Outcome
    private(set) var summary = UpgradeSummary()
    /// Whether links and devices are named too.
    private let isDetailed: Bool

    init(outcome: Outcome, isDetailed: Bool = false) { (self.outcome, self.isDetailed) = (outcome, isDetailed) }

    /// Failures, and what nobody would expect to be left out, are said at once.
    func add(_ result: UpgradeResult) {
        summary.add(result)
        switch result.outcome {
        case .failed(let error): outcome.record(error)
        case .skipped(let reason):
            guard let words = reason.spoken(isDetailed: isDetailed) else { return }
            StandardError.line(.warning, "\(quoted(result.path)) is left out: \(words)")
        case .converted, .raised, .unchanged, .queued: break
        }
    }

    /// A file that was converted by itself.
    func countConverted() { summary.countConverted() }

    /// What was not done, and why.
    ///
    /// - Parameter keybag: what waits for its unlock; nil if nothing was to be done.
    func finish(unlock keybag: Keybag?) {
        noteWhatIsLeftOut()
        guard let keybag, summary.queued > 0 else { return }
        outcome.record(
            Failure(
                .notNow, "\(spoken(summary.queued, "file")) locked; the next unlock upgrades what is left",
                hint: "unlock first: protectfs unlock\(KeybagOption.words(for: keybag.directory))"))
    }

    /// How many files were left out because programs need them, and the option that includes them.
    func noteWhatIsLeftOut() {
        for kind in LeftOut.allCases {
            guard let count = summary.leftOut[kind] else { continue }
            StandardError.line(.note, "\(kind.spoken(count: count)) left out: --include \(kind.rawValue)")
        }
    }

    /// Said once, if anything was plaintext.
    static func noteOldBlocks(_ converted: Int) {
        guard converted > 0 else { return }
        StandardError.line(.note, "old plaintext blocks may survive on flash storage, in snapshots and in backups")
    }
}

extension UpgradeSkip {
    /// Why a file is left out, where that has to be said.
    fileprivate func spoken(isDetailed: Bool) -> String? {
        switch self {
        case .link: isDetailed ? "it is a symbolic link" : nil
        case .notRegularFile: isDetailed ? "it is not a regular file" : nil
        case .otherFileSystem: "another file system is mounted there"
        case .needed(let reason): reason
        case .leftOut(let kind): isDetailed ? kind.reason : nil
        case .rules, .gone: nil
        }
    }

    /// For `--json`.
    var word: String {
        switch self {
        case .link: "link"
        case .notRegularFile: "notRegularFile"
        case .otherFileSystem: "otherFileSystem"
        case .leftOut(let kind): kind.word
        case .rules: "rules"
        case .gone: "gone"
        case .needed: "needed"
        }
    }
}
