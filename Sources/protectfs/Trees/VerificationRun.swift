import DataProtection
import Glibc
import Synchronization

/// One run over all files of a `verify`: several threads open them, this one prints.
final class VerificationRun {
    /// What came of one file; nil when the run was interrupted.
    typealias Product = Result<FileVerification, DataProtectionError>?

    let outcome = Outcome()
    private let keybags: Keybags
    private let isStrict: Bool
    private let progress: Progress
    private let done: ByteCounter
    private var workers: FileWorkers<FilePath, Product>?
    private var document: JSONDocument?
    private var outputFailure: Failure?
    private var named: Set<FilePath> = []
    private var wholeCount = 0
    private var failedCount = 0
    private var unprotectedCount = 0

    /// - Parameter total: bytes of all files; 0 if it is not known.
    init(keybags: Keybags, threads: Int, isStrict: Bool, isJSON: Bool, total: Int64) {
        self.keybags = keybags
        self.isStrict = isStrict
        progress = Progress("verifying", total: total)
        document = isJSON ? JSONDocument(listing: "files") : nil
        let done = ByteCounter()
        self.done = done
        workers = FileWorkers(
            threads: threads, work: { Self.verify($0, keybags, done) },
            receive: { [unowned self] in receive($0, $1) },
            whileWaiting: { [unowned self] in progress.show(done.bytes) })
    }

    /// Counts for the bar what all threads have done.
    private final class ByteCounter: Sendable {
        private let count = Atomic<Int64>(0)
        var bytes: Int64 { count.load(ordering: .relaxed) }
        func add(_ bytes: Int64) { count.add(bytes, ordering: .relaxed) }
    }

    /// - Parameter isNamed: on the command line; plaintext is an error then.
    func add(_ path: FilePath, isNamed: Bool) {
        if isNamed { named.insert(path) }
        workers?.add(path)
        progress.show(done.bytes)
    }

    private static func verify(_ path: FilePath, _ keybags: Keybags, _ done: ByteCounter) -> Product {
        if Interruption.isRequested { return nil }
        var seen: Int64 = 0
        do throws(DataProtectionError) {
            let found = try keybags.reading(path) { keybag throws(DataProtectionError) in
                try keybag.verify(path) { bytes in
                    done.add(bytes - seen)
                    seen = bytes
                    return !Interruption.isRequested
                }
            }
            return found.map { .success($0) }
        } catch {
            return .failure(isPlaintext(path, error) ? .notProtected(path) : error)
        }
    }

    /// Where there is no keybag, plaintext is plaintext all the same.
    private static func isPlaintext(_ path: FilePath, _ error: DataProtectionError) -> Bool {
        guard case .keybagNotFound = error else { return false }
        do throws(DataProtectionError) { _ = try ProtectedFileInfo(of: path) } catch {
            if case .notProtected = error { return true }
        }
        return false
    }

    // MARK: results

    private func receive(_ path: FilePath, _ product: Product) {
        guard let product else { return }
        let isNamed = named.remove(path) != nil
        if case .failure(.notProtected) = product, !isNamed { return countUnprotected(path) }
        let failures = Self.failures(path, product, isStrict)
        if failures.isEmpty { wholeCount += 1 } else { failedCount += 1 }
        for failure in failures { outcome.record(failure) }
        add(Self.members(path, product, failures))
    }

    private func countUnprotected(_ path: FilePath) {
        unprotectedCount += 1
        let directory = path.removingLastComponent()
        guard let wanted = Keybag.defaultProtection(of: directory.isEmpty ? "." : directory) else { return }
        StandardError.line(
            .warning,
            "\(quoted(path)) is not protected, though the default class of its directory is \(wanted.shortName)")
    }

    private func add(_ members: JSON) {
        do throws(Failure) { try document?.add(members) } catch { outputFailure = outputFailure ?? error }
    }

    /// Waits for all threads, prints the summary, and ends the command.
    func finish(isList: Bool) throws {
        workers?.finish()
        workers = nil
        progress.finish()
        if let outputFailure { throw outputFailure }
        let isInterrupted = Interruption.isRequested
        try document?.finish([
            (
                "summary",
                .object([
                    ("whole", .number(Int64(wholeCount))), ("failed", .number(Int64(failedCount))),
                    ("notProtected", .number(Int64(unprotectedCount))), ("interrupted", .bool(isInterrupted)),
                ])
            )
        ])
        if isList, failedCount + unprotectedCount > 0 || isInterrupted {
            let others = [(failedCount, "with errors"), (unprotectedCount, "not protected")].filter { $0.0 > 0 }
            StandardError.line(
                .note, "\(spoken(wholeCount, "file")) whole" + others.map { ", \($0.0) \($0.1)" }.joined())
        }
        if isInterrupted {
            StandardError.line(.warning, "interrupted; the other files were not checked")
            throw ExitStatus.interrupted
        }
        try outcome.leave()
    }
}

extension VerificationRun {
    /// What is wrong with a file, one error each.
    static func failures(_ path: FilePath, _ product: Result<FileVerification, DataProtectionError>, _ isStrict: Bool)
        -> [Failure]
    {
        switch product {
        case .failure(let error): return [Failure(error)]
        case .success(let result):
            var failures: [Failure]
            if result.verdict == .beingWritten {
                failures = [
                    Failure(
                        .notNow, "\(quoted(path)) is being written to; what was committed is whole",
                        hint: "verify it again when the other program has closed it")
                ]
            } else {
                failures = result.findings.map { $0.failure(path) }
            }
            if isStrict, let origin = result.origin, origin != .verified {
                failures.append(Failure(DataProtectionError.unverifiedOrigin(path, origin)))
            }
            return failures
        }
    }

    private static func members(
        _ path: FilePath, _ product: Result<FileVerification, DataProtectionError>, _ failures: [Failure]
    ) -> JSON {
        var members = JSON.members(of: path)
        var findings: [JSON] = []
        if case .success(let result) = product {
            members += [
                ("class", result.protectionClass.map { .string($0.shortName) } ?? .null),
                ("size", .optional(result.size)), ("origin", result.origin.map { .string($0.word) } ?? .null),
            ]
            findings = result.findings.map(\.members)
            members.append(("verdict", .string(result.verdict.rawValue)))
        }
        let status = failures.reduce(ExitStatus.done) { $0.joined($1.status) }
        members.append(("status", .number(Int64(status.rawValue))))
        members.append(("findings", .array(findings)))
        if let error = failures.first?.message { members.append(("error", .string(error))) }
        return .object(members)
    }
}
