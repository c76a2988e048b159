import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The content of one open file: what is known of it, and what was written and not committed. It knows no keybag and keeps no key.
///
/// Apart from ``FileAccess``, so that it can serve many handles. One thread at a time may use it; each ``FileView`` that it gives away
/// is a value of its own.
package final class FileContent {
    package let file: LowerFile
    /// For ciphertext on its way.
    private let memory = SealedMemory()
    private var phase = Phase.unread

    private enum Phase {
        /// Nothing is known: the next operation reads both heads.
        case unread
        /// What the last look found. It holds as long as both heads are the same; another handle or process may write.
        case read(FileState)
        /// The writer lock is held, so that nobody else moves content. What was written may not be committed yet.
        case writing(Writer)
        /// Something failed after which nothing more is written: FORMAT.md §4 rule 15. What was known stays, for reading; nil if
        /// nothing was. A writer's lock stays too, until the file is closed.
        case failed(Errno, FileView?)
    }

    /// Called after each change, see ``WriteLogEntry``.
    package var log: ((WriteLogEntry) -> Void)?
    /// On what the last one was based.
    private var logged: LoggedWrites.Base?

    package init(_ file: LowerFile) { self.file = file }

    /// The content as it is known; nil if nothing is.
    package var view: FileView? {
        switch phase {
        case .unread: nil
        case .read(let state): FileView(file, state, pending: nil, isWriters: false, memory)
        case .writing(let writer): view(of: writer)
        case .failed(_, let view): view
        }
    }

    private func view(of writer: Writer, isCommittedOnly: Bool = false) -> FileView {
        let pending = isCommittedOnly ? nil : writer.uncommitted?.writes
        return FileView(file, writer.state, pending: pending, isWriters: true, memory)
    }

    // MARK: reading

    /// Takes note of heads that were just read and authenticated, and of the records of their area.
    ///
    /// - Parameter keys: with the head key.
    /// - Throws: `damaged`, suspect, if somebody else has moved what only this writer may.
    func take(_ fresh: HeadPair, _ keys: FileKeys) throws(Trouble) -> FileView {
        guard let view, view.isWriters else { return try follow(FileState(fresh), keys) }
        // A writer's content is its own; only the wrap record can have been changed by somebody else.
        guard fresh.head.content == view.state.heads.head.content else {
            throw .suspect(.damaged(file.path, .head, reason: "changed by somebody else", offset: nil))
        }
        var state = view.state
        state.heads = fresh
        return note(state)
    }

    /// Reads the records of the area that are not in `state` yet. Not for a writer, who knows them all.
    ///
    /// - Parameter keys: with the head key, if there is an area.
    func follow(_ state: FileState, _ keys: FileKeys) throws(Trouble) -> FileView {
        var state = state
        try state.scan(file, headKey: state.hasArea ? keys.head() : nil)
        return note(state)
    }

    private func note(_ state: FileState) -> FileView {
        switch phase {
        case .unread, .read:
            phase = .read(state)
            return FileView(file, state, pending: nil, isWriters: false, memory)
        case .writing(var writer):
            writer.state = state
            phase = .writing(writer)
            return view(of: writer)
        case .failed(let errno, let view):
            let now = FileView(
                file, state, pending: view?.pending, isWriters: view?.isWriters ?? false, memory)
            phase = .failed(errno, now)
            return now
        }
    }

    // MARK: writing

    /// Whether this is the file's writer, and able to go on.
    package var isWriting: Bool { if case .writing = phase { true } else { false } }

    /// - Throws: `handleFailed`.
    package func requireNoFailure() throws(DataProtectionError) {
        if case .failed(let errno, _) = phase { throw .because(FileFailure.handleFailed(file.path, errno)) }
    }

    /// Becomes the file's writer: FORMAT.md §4 rules 1 to 3. The caller holds the writer lock and has just looked at the file.
    ///
    /// - Parameters:
    ///   - state: what it has seen.
    ///   - keys: with the head key.
    ///   - logged: what a dead writer has sealed; it waits for the next commit then.
    /// - Returns: false if the file is not in the state that `logged` needs: that is lost.
    /// - Throws: `system`: nothing was changed, or the handle is dead.
    @discardableResult
    func beginWriting(
        _ state: FileState, _ keys: FileKeys, resuming logged: LoggedWrites? = nil,
        warn: @escaping @Sendable (ProtectionWarning) -> Void
    ) throws(DataProtectionError) -> Bool {
        var state = state
        var writer = try file.withByteLock(ByteLocks.slot, .exclusive, waiting: LowerFile.patience) {
            () throws(DataProtectionError) in
            try state.rereadHeads(of: file)
            // After a failed flush the next one may say that all is well: what a dead writer left is then in doubt.
            try dying { () throws(DataProtectionError) in try file.flush() }
            let length = try state.keepForeignBytes(of: file, keys, cutting: true, warn: warn)
            return Writer(of: file, state, length: length, warn: warn)
        }
        let standing = try logged?.standing(on: writer.state, keys)
        if case .waiting(let uncommitted) = standing {
            writer.uncommitted = uncommitted
            writer.sealCount = max(writer.sealCount, uncommitted.records.final.record.sealCount)
            phase = .writing(writer)
            return true
        }
        // What a dead writer left behind the end goes, so that all that lies there later is this one's.
        try dying { () throws(DataProtectionError) in
            if writer.state.hasArea {
                try writer.empty(keys: keys)
            } else if writer.end.length > writer.state.extent {
                try writer.locked { writer throws(DataProtectionError) in try writer.cut(to: writer.state.extent) }
            }
        }
        phase = .writing(writer)
        if case .committed = standing { return true }
        return false
    }

    /// How many seals the writer has made under the file's keys; 0 if this is not the writer.
    var sealCount: UInt64 { if case .writing(let writer) = phase { writer.sealCount } else { 0 } }

    /// Makes a change, and commits some of what is pending if that has become much.
    ///
    /// - Parameter keys: with the head key.
    /// - Throws: what `body` does. The handle is dead then, and nothing of what was pending is ever committed.
    func change(
        _ keys: FileKeys, _ body: (inout Change) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        guard case .writing(let writer) = phase else { throw .because(FileFailure.notOpen(file.path, for: .write)) }
        phase = .unread  // nobody else refers to what is changed in place
        var isLogged = false
        defer { if !isLogged { logUncommitted() } }
        try make(Change(writer, keys, memory), body)
        // What is not logged cannot be committed by another process any more when some of it is on the disk.
        logUncommitted()
        try asWriter { writer throws(DataProtectionError) in isLogged = try !writer.relieve() }
    }

    private func logUncommitted() {
        guard let log else { return }
        guard case .writing(var writer) = phase, let uncommitted = writer.uncommitted else {
            if logged != nil { if case .failed = phase { log(.lost) } else { log(.committed) } }
            logged = nil
            return
        }
        let base = LoggedWrites.Base(writer.state)
        let chunks = base == logged ? uncommitted.writes.unlogged : nil
        log(.change(LoggedWrites.encode(uncommitted, on: base, chunks: chunks)))
        logged = base
        phase = .unread  // nobody else refers to what is changed in place
        writer.uncommitted?.writes.noteLogged()
        phase = .writing(writer)
    }

    private func make(
        _ change: Change, _ body: (inout Change) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        var change = change
        do throws(DataProtectionError) {
            try body(&change)
            try change.finish()
            phase = .writing(change.writer)
        } catch {
            phase = .failed(error.errno, view(of: change.writer, isCommittedOnly: true))
            throw error
        }
    }

    /// Commits what is pending. When this returns it survives a crash and a power cut.
    func sync() throws(DataProtectionError) {
        try requireNoFailure()
        defer { logUncommitted() }
        if view?.pending != nil {
            return try asWriter { writer throws(DataProtectionError) in try writer.commit() }
        }
        // A dead writer's last record, or another handle's unflushed mirror, is what this handle has read.
        try dying { () throws(DataProtectionError) in try file.flush() }
    }

    /// Commits, empties the area, makes both heads equal, and closes. FORMAT.md §4 rule 11.
    func close() throws(DataProtectionError) {
        defer { logUncommitted() }
        do throws(DataProtectionError) {
            try requireNoFailure()
            try asWriter { writer throws(DataProtectionError) in try writer.finish() }
        } catch {
            try? file.close()  // the earlier failure is the one to report; nobody else is kept from writing
            throw error
        }
        try file.close()
    }

    /// Forgets what was not committed.
    func discard() {
        defer { logUncommitted() }
        switch phase {
        case .unread, .read: break
        case .writing(var writer):
            writer.uncommitted = nil
            phase = .writing(writer)
        case .failed(let errno, var view):
            view?.pending = nil
            phase = .failed(errno, view)
        }
    }

    // MARK: failing, rule 15

    /// Refuses to write any more because of `error`; only the first one counts.
    func fail(_ error: DataProtectionError) {
        if case .failed = phase { return }
        phase = .failed(error.errno, view)
        logUncommitted()
    }

    /// Runs a step whose failure makes the handle dead.
    private func dying(_ step: () throws(DataProtectionError) -> Void) throws(DataProtectionError) {
        do throws(DataProtectionError) { try step() } catch {
            fail(error)
            throw error
        }
    }

    /// The same for a step of the writer; without one, nothing is done.
    private func asWriter(
        _ step: (inout Writer) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        guard case .writing(var writer) = phase else { return }
        phase = .unread  // nobody else refers to what is changed in place
        do throws(DataProtectionError) {
            try step(&writer)
            phase = .writing(writer)
        } catch {
            phase = .failed(error.errno, view(of: writer))
            throw error
        }
    }
}
