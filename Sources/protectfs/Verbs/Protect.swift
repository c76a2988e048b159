import ArgumentParser
import DataProtection
import Glibc

/// Turns plaintext into protected files, in place.
struct Protect: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "protect", abstract: "Encrypt plaintext files in place.",
        discussion: """
            Each file is wholly old or wholly new, whatever happens. Mode, owner, times, extended attributes and ACL \
            stay. Files of a weaker class are raised. Links, devices, SQLite databases and files with several names \
            are refused. To decrypt files again: protectfs unprotect
            """)

    @Argument(help: "Files; with --recursive also directories.")
    var paths: [PathsArgument]
    @Option(name: .customLong("class"), help: "The class (default: complete).")
    var wantedClass: ProtectionClass?
    private var protectionClass: ProtectionClass { wantedClass ?? .complete }
    @Flag(name: [.customShort("r"), .long], help: "Include everything below each directory, on the same file system.")
    var recursive = false
    @OptionGroup var include: IncludeOption
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var keybag: KeybagOption

    func run() throws {
        let items = try ConversionItems(paths.stored(followsLast: false), isRecursive: recursive)
        let keybag = try keybag.open()
        try requireKey(of: keybag, for: items.items)
        let names = UnprotectableNames(keybag: keybag.directory)
        let outcome = items.outcome
        var todo: [NamedItem] = []
        for item in items.items {
            if let reason = names.reason(against: item.path) {
                outcome.record(Failure(.refused, "\(quoted(item.path)) is not protected: \(reason)"))
            } else {
                todo.append(item)
            }
        }
        let total = try confirmed(todo, keybag)
        Interruption.watch()
        let run = ProtectionRun(
            keybag: keybag, protectionClass: protectionClass, includes: include.kinds, total: total,
            outcome: outcome)
        for item in todo where !run.isOver { run.protect(item) }
        run.progress.finish()
        run.noteWhatIsLeftOut()
        UpgradeReport.noteOldBlocks(run.converted)
        if Interruption.isRequested {
            StandardError.line(
                .warning, "interrupted; \(spoken(run.converted, "file")) protected, the others are unchanged")
            throw ExitStatus.interrupted
        }
        try outcome.leave()
    }

    /// One error instead of one a file. Class B needs only its public key.
    private func requireKey(of keybag: Keybag, for items: [NamedItem]) throws {
        let status = try keybag.status()
        guard let first = items.first, !status.openClasses.contains(protectionClass),
            protectionClass != .completeUnlessOpen
        else { return }
        throw Failure(
            .notNow,
            "cannot protect \(quoted(first.path)): class \(protectionClass.shortName), "
                + status.state.spoken(since: status.lastTransition),
            hint: "unlock first: protectfs unlock\(KeybagOption.words(for: keybag.directory))")
    }

    /// Counts what is to be converted and asks, if there are directories.
    ///
    /// - Returns: the bytes of plaintext.
    private func confirmed(_ items: [NamedItem], _ keybag: Keybag) throws -> Int64 {
        var count = 0
        var bytes: Int64 = 0
        var options = UpgradeOptions()
        options.isDryRun = true
        options.includes = include.kinds
        for item in items {
            guard item.kind == .directory else {
                if isPlaintext(item.path) { (count, bytes) = (count + 1, bytes.adding(size: item.size)) }
                continue
            }
            // The run itself says what cannot be opened.
            let pass = try? UpgradePass(keybag, item.path, to: protectionClass, rules: nil, options: options)
            _ = pass?.run { result in
                if case .converted = result.outcome { (count, bytes) = (count + 1, bytes.adding(size: result.size)) }
            }
        }
        if yes || count == 0 || !items.contains(where: { $0.kind == .directory }) { return bytes }
        let question =
            "\(spoken(count, "file")) will be readable only through protectfs. Continue? [y/N] "
        switch Confirmation.ask(question) {
        case .yes: return bytes
        case .no:
            StandardError.line(.warning, "nothing was changed")
            throw ExitStatus.interrupted
        case .noTerminal:
            throw Failure(
                .usage,
                "\(spoken(count, "file")) would be readable only through protectfs, and there is no terminal to confirm it on",
                hint: "to protect without asking: --yes")
        }
    }

    private func isPlaintext(_ path: FilePath) -> Bool {
        do throws(DataProtectionError) { _ = try ProtectedFileInfo(of: path) } catch {
            if case .notProtected = error { return true }
        }
        return false
    }
}

/// One run over all paths of a `protect`.
private final class ProtectionRun {
    private let keybag: Keybag
    private let protectionClass: ProtectionClass
    private let includes: Set<LeftOut>
    private let report: UpgradeReport
    var converted: Int { report.summary.converted }
    private(set) var isOver = false
    let progress: Progress

    init(
        keybag: Keybag, protectionClass: ProtectionClass, includes: Set<LeftOut>, total: Int64, outcome: Outcome
    ) {
        self.keybag = keybag
        self.includes = includes
        self.protectionClass = protectionClass
        report = UpgradeReport(outcome: outcome, isDetailed: true)
        progress = Progress("protecting", total: total)
    }

    func noteWhatIsLeftOut() { report.noteWhatIsLeftOut() }

    func protect(_ root: NamedItem) {
        do throws(DataProtectionError) {
            if root.kind == .directory { try upgrade(root) } else { try convert(root) }
        } catch {
            report.outcome.record(error)
            isOver = isOver || error.isLocked
        }
        if isOver {
            StandardError.line(
                .warning, "locked meanwhile; \(spoken(converted, "file")) protected, the others are unchanged")
        }
        isOver = isOver || Interruption.isRequested
    }

    /// Nothing is queued: what is not done is said at once, and can be done again.
    private func upgrade(_ root: NamedItem) throws(DataProtectionError) {
        var options = UpgradeOptions()
        options.queuesWhatIsLocked = false
        options.stopsWhenLocked = true
        options.includes = includes
        let pass = try UpgradePass(keybag, root.path, to: protectionClass, rules: nil, options: options)
        let before = progress.done
        let show = { [progress] in progress.show(before + pass.done.bytes) }
        _ = pass.run(while: Interruption.goesOn, whileWaiting: show) { [self] result in
            if case .failed(let error) = result.outcome, error.isLocked {
                if isOver { return }  // one error, not one a thread
                isOver = true
            }
            report.add(result)
            show()
        }
    }

    private func convert(_ item: NamedItem) throws(DataProtectionError) {
        let result = try progress.during(item.size) { step throws(DataProtectionError) in
            try keybag.protect(
                item.path, as: protectionClass, includingDatabases: includes.contains(.databases), progress: step)
        }
        if result == .converted { report.countConverted() }
    }
}
