import DataProtection
import Glibc

/// One run over all files of a `verify`: several threads open them, this one prints.
final class VerificationRun {
    /// What came of one file; nil when the run was interrupted.
    typealias Product = Result<FileVerification, DataProtectionError>?

    let outcome = Outcome()
    private let keybags: Keybags
    private let isStrict: Bool
    private let progress: Progress
    private let done: ByteCounter
    private var workers: FileWorkers<VerifiedFile, Product>?
    private var document: JSONDocument?
    private var outputFailure: Failure?
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
            // Each file keeps its directory open.
            threads: threads, window: 64, work: { Self.verify($0, keybags, done) },
            receive: { [unowned self] in receive($0, $1) },
            whileWaiting: { [unowned self] in progress.show(done.bytes) })
    }

    private struct VerifiedFile: Sendable {
        let path: FilePath
        let entry: DirectoryEntry?
    }

    /// - Parameter entry: where it was found; nil if it was named on the command line: plaintext is an error then.
    func add(_ path: FilePath, _ entry: DirectoryEntry?) {
        workers?.add(VerifiedFile(path: path, entry: entry))
        progress.show(done.bytes)
    }

    private static func verify(_ item: VerifiedFile, _ keybags: Keybags, _ done: ByteCounter) -> Product {
        if Interruption.isRequested { return nil }
        var seen: Int64 = 0
        func goOn(_ bytes: Int64) -> Bool {
            done.add(bytes - seen)
            seen = bytes
            return !Interruption.isRequested
        }
        do throws(DataProtectionError) {
            let found: FileVerification?
            if let entry = item.entry {
                let file = try entry.directory.file(entry.name, flags: O_RDONLY, path: item.path)
                do throws(DataProtectionError) {
                    found = try keybags.reading(file) { keybag throws(DataProtectionError) in
                        try keybag.verify(file, goOn: goOn)
                    }
                } catch {
                    let isPlaintext = Self.isPlaintext(error) { () throws(DataProtectionError) in
                        try ProtectedFileInfo(path: item.path, file: file)
                    }
                    throw isPlaintext ? .notProtected(item.path) : error
                }
            } else {
                found = try keybags.reading(item.path) { keybag throws(DataProtectionError) in
                    try keybag.verify(item.path, goOn: goOn)
                }
            }
            return found.map { .success($0) }
        } catch {
            let isPlaintext = Self.isPlaintext(error) { () throws(DataProtectionError) in
                try ProtectedFileInfo(of: item.path)
            }
            return .failure(isPlaintext && item.entry == nil ? .notProtected(item.path) : error)
        }
    }

    /// Where there is no keybag, plaintext is plaintext all the same.
    private static func isPlaintext(
        _ error: DataProtectionError, _ info: () throws(DataProtectionError) -> ProtectedFileInfo
    ) -> Bool {
        guard case .because(KeybagFailure.keybagNotFound) = error else { return false }
        do throws(DataProtectionError) { _ = try info() } catch {
            if case .notProtected = error { return true }
        }
        return false
    }

    // MARK: results

    private func receive(_ item: VerifiedFile, _ product: Product) {
        guard let product else { return }
        let path = item.path
        if case .failure(.notProtected) = product, let entry = item.entry { return countUnprotected(entry) }
        let failures = Self.failures(path, product, isStrict)
        if failures.isEmpty { wholeCount += 1 } else { failedCount += 1 }
        for failure in failures { outcome.record(failure) }
        add(Self.members(path, product, failures))
    }

    private func countUnprotected(_ entry: DirectoryEntry) {
        unprotectedCount += 1
        guard let wanted = Keybag.defaultProtection(of: entry.directory.descriptorPath) else { return }
        StandardError.line(
            .warning,
            "\(quoted(entry.path)) is not protected, though the default class of its directory is \(wanted.shortName)")
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
                failures.append(Failure(DataProtectionError.because(FileFailure.unverifiedOrigin(path, origin))))
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
