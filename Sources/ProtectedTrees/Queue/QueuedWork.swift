import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
public import ProtectionKeys
public import SystemPackage

/// A piece of work that could not be done while locked, or waits for a file to be closed.
public struct QueuedWork: Hashable, Sendable {
    /// What is to be done.
    public enum Kind: Hashable, Sendable {
        /// Give the file this class.
        case raise(to: ProtectionClass)
        /// Append the file, a segment, to this log.
        case join(log: FilePath)
        /// Write what a program has stored in a mapping of the file, and the file could not take before, because it was locked.
        case merge
        /// Bring everything in the directory to its class: this one, or where that is nil what rules say.
        case upgrade(to: ProtectionClass?)
    }

    /// What is to be done.
    public let kind: Kind
    /// The file or directory, under the name that it had when the work was noted.
    public let path: FilePath
    /// Why the last try failed; nil: it was not tried, or was only locked.
    public let lastError: Errno?
}

/// What came of a piece of work.
public struct QueuedWorkResult: Hashable, Sendable {
    /// How it ended.
    public enum Outcome: Hashable, Sendable {
        /// It is done, and lasts.
        case done
        /// There was nothing to do any more: somebody gave the file its class, or another one, by hand.
        case unneeded
        /// The file is neither under its name nor under another one in its directory. The work was dropped, with a warning.
        case gone
        /// The process that created the file has it open, or another process works on it. It stays in the queue.
        case inUse
        /// Locked, or an earlier segment of the same log has not been joined. It stays in the queue.
        case waiting
        /// It stays in the queue, and the error with it. Of an upgrade there is one result for each file that failed, and it
        /// leaves the queue: nothing of it waits for an unlock.
        case failed(DataProtectionError)
    }

    /// What was to be done.
    public let work: QueuedWork
    /// How it ended.
    public let outcome: Outcome
    /// Whether another process is doing it: that comes to an end, and may fail. No part of what makes two results the same.
    package var isDoneElsewhere = false

    public static func == (one: Self, other: Self) -> Bool { one.work == other.work && one.outcome == other.outcome }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(work)
        hasher.combine(outcome)
    }
}

extension Keybag {
    /// How much work is queued. Needs no key, and reads no more than the names in one directory.
    public var queuedWorkCount: Int { (try? countQueuedWork()) ?? 0 }

    /// The same, for people: a queue that cannot be read is not an empty one.
    package func countQueuedWork() throws(DataProtectionError) -> Int { try QueueNote.numbers(in: directory).count }

    /// The work that is queued, in the order in which it will be done. Needs no key.
    public func queuedWork() throws(DataProtectionError) -> [QueuedWork] {
        var works: [QueuedWork] = []
        for number in try QueueNote.numbers(in: directory) {
            if let (_, work) = try readNote(number) { works.append(work) }
        }
        return works
    }

    /// A note and its work; nil if it has just gone, or is none that can be read, with a warning.
    private func readNote(_ number: UInt64) throws(DataProtectionError) -> (QueueNote, QueuedWork)? {
        let note = try QueueNote.read(number, in: directory, holding: false) { warn(.queueNoteUnreadable($0)) }
        guard let note else { return nil }
        if let work = QueuedWork(note) { return (note, work) }
        warn(.queueNoteUnreadable(note.path))
        return nil
    }

    /// Does the work that is queued, in order; goes on after failures, and stops between files when a lock comes.
    ///
    /// Any number of processes may do so at once. What failed stays in the queue.
    /// - Parameter report: called with each result as it comes.
    /// - Returns: every result.
    /// - Throws: `system` if the queue cannot be read.
    @discardableResult
    public func performQueuedWork(
        reporting report: (QueuedWorkResult) -> Void = { _ in }
    ) throws(DataProtectionError) -> [QueuedWorkResult] {
        try performQueuedWork(keepingLost: false, reporting: report)
    }

    /// Does the queue, or a part of it.
    ///
    /// - Parameters:
    ///   - log: a log that this process writes to: segments of it are appended through this handle.
    ///   - keepingLost: what is *gone*, or fails, stays in the queue: nobody would see why. An upgrade in which something failed
    ///     is left alone for a day then.
    ///   - show: called several times a second during an upgrade, with the files and bytes that are done.
    @discardableResult
    package func performQueuedWork(
        only isMeant: (QueuedWork) -> Bool = { _ in true }, into log: ProtectedFile? = nil, keepingLost: Bool,
        showing show: @escaping (_ files: Int, _ bytes: Int64) -> Void = { _, _ in },
        reporting report: (QueuedWorkResult) -> Void = { _ in }
    ) throws(DataProtectionError) -> [QueuedWorkResult] {
        var results: [QueuedWorkResult] = []
        var waitingLogs: Set<FilePath> = []
        for number in try QueueNote.numbers(in: directory) {
            guard let (seen, work) = try readNote(number) else { continue }
            guard isMeant(work), !(keepingLost && seen.isResting) else { continue }
            func add(_ outcome: QueuedWorkResult.Outcome) {
                var result = QueuedWorkResult(work: work, outcome: outcome)
                // A process that holds the note of an upgrade is doing the work. The program that has a file open may hold the note of that file.
                result.isDoneElsewhere =
                    outcome == .inUse && (work.isUpgrade || QueueTries(number, in: directory).haveBegun)
                results.append(result)
                report(result)
            }
            var outcome = QueuedWorkResult.Outcome.waiting
            if isProtectedDataAvailable, !work.isJoin(toAnyOf: waitingLogs) {
                guard let held = perform(number, work, into: log, keepingLost, show, { add(.failed($0)) })
                else { continue }
                outcome = held
            }
            if case .join(let log) = work.kind, outcome.holdsUp { waitingLogs.insert(log) }
            add(outcome)
        }
        return results
    }

    /// Nil if somebody else has just done it, or has put another note in its place since it was looked at.
    private func perform(
        _ number: UInt64, _ work: QueuedWork, into log: ProtectedFile?, _ keepingLost: Bool,
        _ show: @escaping (Int, Int64) -> Void, _ others: (DataProtectionError) -> Void
    ) -> QueuedWorkResult.Outcome? {
        do throws(DataProtectionError) {
            guard var note = try QueueNote(number, in: directory, holding: true) else {
                return try QueueNote(number, in: directory, holding: false) == nil ? nil : .inUse
            }
            guard let now = QueuedWork(note), now.kind == work.kind, now.path == work.path else { return nil }
            let tries = QueueTries(number, in: directory)
            try tries.begin()
            defer { tries.end() }
            return HeldWork(keybag: self, log: log, keepingLost: keepingLost, show: show).perform(&note, others: others)
        } catch {
            return .failed(error)
        }
    }
}

extension QueuedWorkResult.Outcome {
    /// Whether the work has left the queue.
    package var isOver: Bool {
        switch self {
        case .done, .unneeded, .gone: true
        case .inUse, .waiting, .failed: false
        }
    }

    /// Whether later segments of the same log wait for this one. For one that can never be read, or that somebody may have planted, nobody
    /// waits.
    package var holdsUp: Bool {
        switch self {
        case .done, .unneeded, .gone, .failed(.damaged), .failed(.unsupported),
            .failed(.because(KeybagFailure.keyLost)),
            .failed(.because(FileFailure.otherKey)), .failed(.because(TreeFailure.notASegment)):
            false
        case .inUse, .waiting, .failed: true
        }
    }
}

extension QueuedWork {

    /// Nil for a note that makes no sense.
    package init?(_ note: QueueNote) {
        switch note.records.first {
        case .raise(let file, _, let to): (kind, path) = (.raise(to: to), file.path)
        case .join(let segment, let log, _):
            // Otherwise an attacker who can write notes could have any other file appended and removed.
            guard RotatedLog(log).hasSegment(segment.path) else { return nil }
            (kind, path) = (.join(log: log), segment.path)
        case .late(let file, _): (kind, path) = (.merge, file.path)
        case .upgrade(let upgrade): (kind, path) = (.upgrade(to: upgrade.plan.protectionClass), upgrade.path)
        default: return nil
        }
        if case .failed(let errno, _) = note.records.last { lastError = errno } else { lastError = nil }
    }

    /// Whether it is an upgrade of a directory.
    package var isUpgrade: Bool { if case .upgrade = kind { true } else { false } }

    package func isJoin(toAnyOf logs: Set<FilePath>) -> Bool {
        if case .join(let log) = kind { logs.contains(log) } else { false }
    }
}

extension FileReference {
    /// What is to be said of a file that is not found.
    ///
    /// - Throws: `system` with ENOENT if its disk is away: the directory on which it is mounted is there without it.
    package func gone() throws(DataProtectionError) -> QueuedWorkResult.Outcome {
        var status = stat()
        var directory = path.directory
        while directory.withPlatformString({ stat($0, &status) }) != 0 {
            guard errno == ENOENT, directory.removeLastComponent() else { break }
        }
        guard UInt64(status.st_dev) == device else {
            throw .system(path, operation: "open", .noSuchFileOrDirectory)
        }
        return .gone
    }
}
