import DataProtection

/// What is said of the items of a backup, or a restore, while it is on and at its end.
final class BackupReport {
    enum Verb {
        case backup, restore
        /// A restore that gives nothing a name.
        case trial

        /// For the bar.
        var label: String {
            switch self {
            case .backup: "backing up"
            case .restore: "restoring"
            case .trial: "opening"
            }
        }
    }

    private let verb: Verb
    private let outcome = Outcome()
    private let progress: Progress
    private var document: JSONDocument?
    private var outputFailure: Failure?
    private var done: Int64 = 0
    private var copied = 0
    private var unchanged = 0
    private var removed = 0
    private var failed = 0
    private var notProtected = 0
    private var withSeveralNames = 0

    /// - Parameter total: bytes of all files; 0 if it is not known.
    init(_ verb: Verb, isJSON: Bool, total: Int64) {
        self.verb = verb
        progress = Progress(verb.label, total: total)
        document = isJSON ? JSONDocument(listing: "files") : nil
    }

    /// Stored bytes of all files, for the bar.
    static func bytes(below roots: [FilePath]) -> Int64 {
        var bytes: Int64 = 0
        for root in roots {
            TreeWalk(crossesFileSystems: false) { _ in }.walk(root, recordingIn: nil) { item in
                if item.kind == .file { bytes = bytes.adding(size: item.size) }
                return Interruption.isRequested ? .stop : .goOn
            }
        }
        return bytes
    }

    /// Failures are said at once.
    func add(_ result: BackupResult) {
        done = done.adding(size: result.size)
        progress.show(done)
        var members = JSON.members(of: result.path)
        switch result.outcome {
        case .copied:
            copied += 1
            if result.nameCount > 1 { withSeveralNames += 1 }
            members.append(("result", .string(verb == .backup ? "copied" : verb == .restore ? "restored" : "whole")))
        case .unchanged:
            unchanged += 1
            members.append(("result", .string("unchanged")))
        case .removed:
            removed += 1
            members.append(("result", .string("removed")))
        case .notProtected:
            notProtected += 1
            members.append(("result", .string("notProtected")))
        case .otherFileSystem:
            StandardError.line(.warning, "\(quoted(result.path)) is another file system and is left out")
            members.append(("result", .string("otherFileSystem")))
        case .notRegularFile:
            StandardError.line(.warning, "\(quoted(result.path)) is left out: it is neither file, directory nor link")
            members.append(("result", .string("notRegularFile")))
        case .restoredEarlier(let error):
            let hint = "an earlier copy is whole" + (verb == .trial ? "" : ", and was restored instead")
            members += record(Failure(error.exitStatus, error.message, hint: hint), as: "restoredEarlier")
        case .failed(let error): members += record(failure(error), as: "failed")
        }
        do throws(Failure) { try document?.add(.object(members)) } catch { outputFailure = outputFailure ?? error }
    }

    private func record(_ failure: Failure, as result: String) -> [(String, JSON)] {
        failed += 1
        outcome.record(failure)
        return [
            ("result", .string(result)), ("status", .number(Int64(failure.status.rawValue))),
            ("error", .string(failure.message)),
        ]
    }

    /// Takes the status of a part that says itself what goes wrong.
    func add(_ part: () throws -> ExitStatus) { outcome.record(part) }

    private func failure(_ error: DataProtectionError) -> Failure {
        guard verb == .backup, case .exists = error else { return Failure(replaceable: error) }
        return Failure(.exists, error.message, hint: "to delete the earlier copy: --delete")
    }

    /// Says what is to be said of all, and ends the command.
    func finish() throws {
        progress.finish()
        if let outputFailure { throw outputFailure }
        let isInterrupted = Interruption.isRequested
        let summary: [(String, JSON)] = [
            ("copied", .number(Int64(copied))), ("unchanged", .number(Int64(unchanged))),
            ("removed", .number(Int64(removed))), ("failed", .number(Int64(failed))),
            ("notProtected", .number(Int64(notProtected))), ("interrupted", .bool(isInterrupted)),
        ]
        try document?.finish([("summary", .object(summary))])
        if notProtected > 0 {
            StandardError.line(
                .warning, "\(spoken(notProtected, "file")) not protected, so not in the backup")
        }
        if withSeveralNames > 0 {
            StandardError.line(
                .note,
                "\(spoken(withSeveralNames, "file")) with several names: each name is a file of its own in the backup")
        }
        if isInterrupted {
            StandardError.line(.warning, "interrupted; run the command again to continue")
            throw ExitStatus.interrupted
        }
        try outcome.leave()
    }
}
