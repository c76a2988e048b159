import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import Synchronization
public import SystemPackage

/// A log that goes on through locks, rotation and kill -9, each line exactly once.
///
/// The log is a `completeUnlessOpen` file: what is open goes on while locked, but a log that was closed cannot be opened
/// before the next unlock. Then, or while another process writes to it, lines go to a new segment `LOG.segment-N`, which is
/// queued to be appended to the log: by ``Keybag/performQueuedWork(reporting:)``, by the next process that opens the log, or by this object, which
/// returns to the log by itself. Segments are joined in the order of their creation. A segment that is damaged, or not proved to be made for this
/// log, stays where it is and does not hold up the others; the keybag warns of it.
public final class SegmentedLog: @unchecked Sendable {  // everything is only touched under `turn`
    /// Where the log is, absolute.
    public let path: FilePath
    private let keybag: Keybag
    private let names: RotatedLog
    private let turn = Mutex(false)  // whether the log is closed

    private enum Place {
        /// Nothing is open: a handle was given up, or the log was rotated.
        case none
        case log(ProtectedFile)
        /// The note is held, so that nobody joins a segment that is written to.
        case segment(ProtectedFile, QueueNote)
    }
    private var place = Place.none
    /// When to look again whether the log can be written to, or others have left segments; CLOCK_MONOTONIC in nanoseconds.
    private var nextLook: UInt64 = 0
    /// Segments of which it was said that the log goes on without them.
    private var leftOut: Set<FilePath> = []

    /// Opens the log, or creates it. Segments that wait for it are joined first, if it is unlocked.
    ///
    /// - Throws: `wouldWeaken` if the log is a `complete` file: a process that has a segment open could read it.
    ///   `notProtected`, `damaged`, `system`; never `locked` or `busy`.
    public init(_ path: FilePath, keybag: Keybag) throws(DataProtectionError) {
        guard let name = path.lastComponent else { throw .notRegularFile(path) }
        self.path = try path.directory.resolved().appending(name)
        self.keybag = keybag
        names = RotatedLog(self.path)
        try open()
    }

    /// Appends bytes, one line or several. When this returns they survive a crash and a power cut.
    ///
    /// - Throws: `system` with what keeps the disk from taking them, `handleFailed`. They may be in the log all the same, as
    ///   after any flush that failed. The next call opens the log anew.
    public func append(_ bytes: UnsafeRawBufferPointer) throws(DataProtectionError) {
        try turn.withLock { isClosed throws(DataProtectionError) in
            guard !isClosed else { throw .because(FileFailure.notOpen(path, for: .write)) }
            do throws(DataProtectionError) {
                try follow()
                guard let file = current else { throw .because(FileFailure.notOpen(path, for: .write)) }
                try file.append(bytes)
                try file.sync()
            } catch {
                // What was not acknowledged must not appear behind a later line.
                current?.discard()
                place = .none
                throw error
            }
        }
    }

    /// Appends a line; the newline is added.
    public func append(line: String) throws(DataProtectionError) {
        try Array("\(line)\n".utf8).lendBytes { bytes throws(DataProtectionError) in try append(bytes) }
    }

    /// Renames the log to `LOG.1`, that to `LOG.2` and so on, and begins a new one. Goes in every lock state.
    ///
    /// What another process has rotated a moment ago is not rotated again.
    /// - Parameter count: how many old parts there may be, 1 at least; the oldest goes.
    public func rotate(keeping count: Int) throws(DataProtectionError) {
        try turn.withLock { isClosed throws(DataProtectionError) in
            guard !isClosed else { throw .because(FileFailure.notOpen(path, for: .write)) }
            let entry = try DirectoryEntry(path)
            _ = try retrying(path.directory, "flock") { flock(entry.directory.descriptor, LOCK_EX) }
            defer { withExtendedLifetime(entry) {} }
            if case .log(let file) = place {
                place = .none
                defer { try? file.close() }  // every line was acknowledged before
                guard try entry.leads(to: file.lower) else { return }
            }
            try names.rotate(keeping: count, in: entry.directory)
        }
    }

    /// Closes. A segment is appended to the log if it is unlocked, else later.
    public func close() throws(DataProtectionError) {
        try turn.withLock { isClosed throws(DataProtectionError) in
            if isClosed { return }
            isClosed = true
            let isSegment = if case .segment = place { true } else { false }
            let file = current
            place = .none
            try file?.close()
            if isSegment { try join(into: nil) }
        }
    }

    deinit { try? close() }  // every line was acknowledged; a segment stays in the queue

    // MARK: where lines go

    private var current: ProtectedFile? {
        switch place {
        case .none: nil
        case .log(let file), .segment(let file, _): file
        }
    }

    /// Follows a rotation and an unlock.
    private func follow() throws(DataProtectionError) {
        if case .log(let file) = place, try !file.lower.isNamed(path) {
            place = .none
            try? file.close()  // every line was acknowledged before
        }
        if case .none = place { return try open() }
        let now = Clock.monotonic()
        guard now >= nextLook else { return }
        nextLook = now + 1_000_000_000
        guard keybag.queuedWorkCount > 0, keybag.isProtectedDataAvailable else { return }
        switch place {
        case .log(let file): try join(into: file)
        case .segment(let file, let note): try leaveSegment(file, note)
        case .none: break
        }
        if case .none = place { try open() }
    }

    private func open() throws(DataProtectionError) {
        nextLook = Clock.monotonic() + 1_000_000_000
        if let log = try openLog() {
            if try !join(into: log).contains(where: \.outcome.holdsUp) {
                place = .log(log)
                return
            }
            try log.close()  // somebody has an earlier segment open, or is joining it: lines must not overtake it
        }
        place = try newSegment()
    }

    /// The log as its only writer; nil while that cannot be.
    private func openLog() throws(DataProtectionError) -> ProtectedFile? {
        if !OwnDirectory.exists(path), try hasSegments() {
            // The first one is the log's beginning.
            if keybag.isProtectedDataAvailable { try join(into: nil) }
            if !OwnDirectory.exists(path) { return nil }
        }
        do throws(DataProtectionError) {
            let file = try ProtectedFile.open(path, .readWrite, create: .completeUnlessOpen, keybag: keybag)
            if try file.protectionClass() == .complete { throw refusal }
            try file.beginWriting()
            // Rotated in this moment: it is not the log any more.
            return try file.lower.isNamed(path) ? file : nil
        } catch {
            switch error {
            case .because(KeybagFailure.locked(_, .complete, _, _, _)): throw refusal
            case .because(KeybagFailure.locked), .busy: return nil
            case .system(_, _, .noSuchFileOrDirectory): return nil  // rotated in this moment
            default: throw error
            }
        }
    }

    private var refusal: DataProtectionError {
        .because(FileFailure.wouldWeaken(path, from: .complete, to: .completeUnlessOpen))
    }

    private func newSegment() throws(DataProtectionError) -> Place {
        while true {
            let new = try NewFile(
                names.segment(try names.nextSegment()), as: .completeUnlessOpen, layout: .small, keybag: keybag)
            try new.finish()
            // Queued before it has a name, so before its first byte.
            let note = try QueueNote(
                .join(
                    try FileReference(new.file, new.fileID, named: new.path), log: path,
                    seal: try new.joinSeal(for: path)), in: keybag.directory)
            do throws(DataProtectionError) {
                try new.publish(replacing: false)
                return .segment(ProtectedFile(try new.handle()), note)
            } catch {
                // Where only the last flush failed, the segment is there.
                if try !new.file.isNamed(new.path) { try note.remove() }
                guard case .exists = error else { throw error }  // another process has taken the number
            }
        }
    }

    /// Goes back to the log when all earlier segments are in it.
    private func leaveSegment(_ file: ProtectedFile, _ note: QueueNote) throws(DataProtectionError) {
        let log = try openLog()
        if log == nil, OwnDirectory.exists(path) { return }
        // A log that is missing begins with the first segment.
        let firstLeft = try join(into: log).first(where: \.outcome.holdsUp)
        guard firstLeft == nil || firstLeft?.work.path == file.path else {
            try log?.close()
            return
        }
        place = .none
        try? file.close()  // every line was acknowledged before
        var note = note
        if HeldWork(keybag: keybag, log: log).perform(&note).isOver, let log {
            place = .log(log)
        } else {
            try log?.close()
        }
    }

    // MARK: segments

    private func isOurs(_ work: QueuedWork) -> Bool { work.isJoin(toAnyOf: [path]) }

    private func hasSegments() throws(DataProtectionError) -> Bool { try keybag.queuedWork().contains(where: isOurs) }

    @discardableResult
    private func join(into log: ProtectedFile?) throws(DataProtectionError) -> [QueuedWorkResult] {
        let results = try keybag.performQueuedWork(only: isOurs, into: log, keepingLost: false)
        for result in results where !result.outcome.holdsUp {
            guard case .failed(let error) = result.outcome, leftOut.insert(result.work.path).inserted else { continue }
            keybag.warn(.segmentLeftOut(result.work.path, of: path, error))
        }
        return results
    }
}
