import ArgumentParser
import DataProtection
import Glibc

/// Brings everything below a directory to its class.
struct Upgrade: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "upgrade",
        abstract: "Protect the plaintext files in a directory, and raise files of a weaker class.",
        discussion: """
            Works in place, on everything below the directory on the same file system. Each file is wholly old or \
            wholly new, whatever happens. No class is ever lowered, and files that are right already are left alone, \
            so you can run it again at any time. Files that are locked are done after the next unlock.

            Links are not followed. Files with several names, or open for writing, are reported and stay as they \
            are. Version-control stores, programs, databases and lock files are left out and counted, because other \
            programs could not use them any more; --include converts them too.

            A file of --rules has lines GLOB CLASS, and the first line that matches counts: mail/** complete, *.log \
            unless-open, vendor/ - (leave as it is). A glob without / matches a name at any depth. # begins a \
            comment. Rules are never read from the directory itself.
            """)

    @Argument(help: "The directory to upgrade.")
    var directory: PathArgument?
    @Option(
        name: .customLong("class"),
        help: ArgumentHelp(
            "The class of files that no rule matches (default: complete; with --rules they stay as they are).",
            valueName: "class"))
    var wantedClass: ProtectionClass?
    @Option(help: ArgumentHelp("Assign classes to files by the lines GLOB CLASS of this file.", valueName: "file"))
    var rules: PathArgument?
    @OptionGroup var include: IncludeOption
    @Flag(help: "List what would be done. Change nothing.")
    var dryRun = false
    @OptionGroup var jobs: JobsOption
    @Flag(help: "Print JSON: every file, and a summary.")
    var json = false
    /// Only the upgrades that wait for an unlock, at the lowest priority. `queue run` does them too.
    @Flag(help: .hidden)
    var queued = false
    @OptionGroup var keybag: KeybagOption

    func validate() throws {
        if queued, directory != nil { throw ValidationError("--queued takes no directory") }
        if queued, wantedClass != nil || rules != nil || jobs.jobs != nil || !include.given.isEmpty || dryRun || json {
            throw ValidationError("--queued takes no other option except --keybag")
        }
        if !queued, directory == nil { throw ValidationError("name a directory") }
    }

    func run() throws {
        guard let directory else { return try runQueued() }
        var options = UpgradeOptions()
        options.includes = include.kinds
        options.isDryRun = dryRun
        options.jobs = jobs.jobs
        let keybag = try keybag.open()
        let pass = try pass(over: directory.stored(), options, keybag)
        Interruption.watch()
        let run = UpgradeRun(directory.path, isDryRun: dryRun, isJSON: json)
        try run.perform(pass, keybag)
    }

    private func pass(over directory: FilePath, _ options: UpgradeOptions, _ keybag: Keybag) throws -> UpgradePass {
        let rules = try rules.map { rules throws(DataProtectionError) in try UpgradeRules(contentsOf: rules.path) }
        let pass: UpgradePass
        do throws(DataProtectionError) {
            pass = try UpgradePass(
                keybag, directory, to: wantedClass ?? (rules == nil ? .complete : nil), rules: rules, options: options)
        } catch {
            guard case .system(_, _, .notDirectory) = error else { throw error }
            throw Failure(
                error.exitStatus, error.message, hint: "for single files: protectfs protect \(quoted(directory))")
        }
        guard let reason = pass.refusal else { return pass }
        throw Failure(
            .refused, "\(quoted(directory)) is not upgraded: \(reason)",
            hint: "name directories below it that are not needed before an unlock")
    }

    private func runQueued() throws {
        let keybag = try keybag.open()
        BackgroundQueue.giveWay()
        try QueueRun.perform(keybag, only: { $0.isUpgrade }, keepingLost: false)
    }
}

/// One run of the verb: results as they come, and the end.
private final class UpgradeRun {
    private let report = UpgradeReport(outcome: Outcome())
    private let isDryRun: Bool
    private let progress = Progress("upgrading", total: 0)
    private var lines = OutputLines()
    private var document: JSONDocument?
    private var outputFailure: (any Error)?
    private var count = 0
    /// Of all files; zeros where nobody sees them.
    private let total: (files: Int, bytes: Int64)

    init(_ directory: FilePath, isDryRun: Bool, isJSON: Bool) {
        self.isDryRun = isDryRun
        document = isJSON ? JSONDocument(listing: "files") : nil
        total = isatty(2) == 1 ? Self.total(of: directory) : (0, 0)
    }

    func perform(_ pass: UpgradePass, _ keybag: Keybag) throws {
        let show = { [self] in
            progress.show(text: Self.line(files: count, bytes: pass.done.bytes, of: total, after: progress.elapsed))
        }
        let summary = pass.run(while: Interruption.goesOn, whileWaiting: show) { [self] result in
            count += 1
            report.add(result)
            do { try list(result) } catch { outputFailure = outputFailure ?? error }
            show()
        }
        progress.finish()
        if let outputFailure { throw outputFailure }
        try lines.finish()
        try document?.finish([("summary", Self.members(of: summary))])
        if !isDryRun {
            UpgradeReport.noteOldBlocks(summary.converted)
        }
        report.finish(unlock: isDryRun ? nil : keybag)
        if summary.isStopped {
            StandardError.line(.warning, "interrupted; the other files are unchanged")
            throw ExitStatus.interrupted
        }
        try report.outcome.leave()
    }

    private func list(_ result: UpgradeResult) throws {
        if document != nil { try document?.add(Self.members(of: result)) }
        guard isDryRun, document == nil, let words = result.plan else { return }
        try lines.add(Array("\(words)  ".utf8) + listed(result.path))
    }

    // MARK: progress

    private static func total(of directory: FilePath) -> (files: Int, bytes: Int64) {
        var total = (files: 0, bytes: Int64(0))
        var device: dev_t?
        TreeWalk(crossesFileSystems: true).walk(directory, recordingIn: nil) { item in
            device = device ?? item.device
            if item.device != device { return .leaveOut }  // the upgrade says so
            if item.kind == .file { total = (total.files + 1, total.bytes.adding(size: item.size)) }
            return Interruption.isRequested ? .stop : .goOn
        }
        return total
    }

    /// `1234/10000 files, 120 MiB, 3 min left`. A file takes as long as 64 KiB more.
    private static func line(
        files: Int, bytes: Int64, of total: (files: Int, bytes: Int64), after seconds: Double
    ) -> String {
        func cost(_ files: Int, _ bytes: Int64) -> Double { Double(bytes) + Double(files) * 65_536 }
        let share = cost(files, bytes) / max(1, cost(total.files, total.bytes))
        let left = share > 0.01 ? Int(clamping: seconds / share - seconds) : nil
        let time = left.map { $0 < 100 ? "\($0) s left" : "\($0 / 60) min left" } ?? "…"
        return "\(files)/\(total.files) files, \(bytes >> 20) MiB, \(time)"
    }

    // MARK: JSON

    private static func members(of result: UpgradeResult) -> JSON {
        var members = JSON.members(of: result.path)
        members.append(("class", result.protectionClass.map { .string($0.shortName) } ?? .null))
        switch result.outcome {
        case .converted: members.append(("result", .string("converted")))
        case .raised(let from): members += [("result", .string("raised")), ("from", .string(from.shortName))]
        case .unchanged: members.append(("result", .string("unchanged")))
        case .skipped(let reason): members += [("result", .string("skipped")), ("reason", .string(reason.word))]
        case .queued: members.append(("result", .string("queued")))
        case .failed(let error):
            let failure = Failure(error)
            members += [
                ("result", .string("failed")), ("error", .string(failure.message)),
                ("status", .number(Int64(failure.status.rawValue))),
            ]
        }
        return .object(members)
    }

    private static func members(of summary: UpgradeSummary) -> JSON {
        .object([
            ("converted", .number(Int64(summary.converted))), ("raised", .number(Int64(summary.raised))),
            ("unchanged", .number(Int64(summary.unchanged))), ("skipped", .number(Int64(summary.skipped))),
            ("leftOut", .object(LeftOut.allCases.map { ($0.word, .number(Int64(summary.leftOut[$0] ?? 0))) })),
            ("queued", .number(Int64(summary.queued))), ("failed", .number(Int64(summary.failures.count))),
            ("lastError", summary.lastError.map { .string(Failure($0).message) } ?? .null),
            ("interrupted", .bool(summary.isStopped)),
        ])
    }
}

extension UpgradeResult {
    /// What a dry run says of it; nil where nothing is to do.
    fileprivate var plan: String? {
        let named = protectionClass.map { " \($0.shortName)" } ?? ""
        return switch outcome {
        case .converted: "protect\(named)"
        case .raised: "raise\(named)"
        case .queued: "after unlock\(named)"
        case .skipped(.leftOut(let kind)): "leave out \(kind.noun)"
        case .unchanged, .skipped, .failed: nil
        }
    }
}
