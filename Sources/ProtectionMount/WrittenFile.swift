import DataProtection
import DurableFiles
import FuseSession
import Glibc
import MountRules
import POSIXThreads
import ProtectedFiles
import ProtectedTrees
import Synchronization
import SystemPackage

/// A protected file that programs have open for writing: the one writer of it, for all of their handles.
///
/// What write(2) has acknowledged is sealed and not committed yet: ``commit(_:)`` makes it last. The directory below has the old size and times
/// until then, so programs are told those from here.
final class WrittenFile: Sendable {
    let node: FuseNode
    let file: ProtectedFile
    /// The same open file, for what is asked and set when the writer has closed its own descriptor.
    let lower: LowerFile

    private struct State {
        /// When it was written to, or what a program has set since. Nil: as the directory below says.
        var modified: timespec?
        var isUncommitted = false
        /// Whether the mode may have set-user-ID bits, which the next write takes away.
        var mayHaveSetID = true
        var schedule = CommitSchedule()
    }
    private let state = Mutex(State())
    /// Comes back to what nobody has asked to commit.
    private let rounds: StandingThread

    /// What programs store in mappings, and the kernel delivers after a lock.
    private struct Late {
        /// Made while the file can be read: without a read there are no pages.
        var key: LatePagesKey?
        /// Pages that the file does not have yet.
        var pages: LatePagesFile?
    }
    private let late = Mutex(Late())
    private unowned let writers: Writers
    private let record: ConnectionRecord?

    init(
        _ file: ProtectedFile, _ node: FuseNode, rounds: StandingThread, writers: Writers, _ writes: RecordedWrites?
    ) throws(DataProtectionError) {
        (self.file, self.node, self.rounds, self.writers) = (file, node, rounds, writers)
        self.record = writes?.record
        lower = LowerFile(path: file.path, descriptor: try file.lower.duplicate())
        if let writes { file.logWrites { writes.note(node, $0) } }
    }

    // MARK: writing

    /// - Throws: ENOKEY if its class key has gone; EBUSY while another process writes to it.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64, appends: Bool) throws(Errno) {
        try mergeLatePages()
        try changing { () throws(DataProtectionError) in
            if appends { _ = try file.append(bytes) } else { try file.write(bytes, at: Int64(clamping: offset)) }
        }
    }

    func truncate(to size: UInt64) throws(Errno) {
        try mergeLatePages()
        try changing { () throws(DataProtectionError) in try file.truncate(to: Int64(clamping: size)) }
    }

    private func changing(_ change: () throws(DataProtectionError) -> Void) throws(Errno) {
        try refusing { () throws(DataProtectionError) in try change() }
        let mayHaveSetID = state.withLock { state in
            defer { state.mayHaveSetID = false }
            return state.mayHaveSetID
        }
        if mayHaveSetID { dropSetID() }
        // Behind it: a commit that comes in between has this change too, and the next one has nothing to do.
        let delay = state.withLock { state in
            state.modified = Self.now()
            state.isUncommitted = true
            return state.schedule.wrote(at: Clock.monotonic())
        }
        if let delay { comeBack(after: delay) }
    }

    /// A program's mode of the file has changed.
    func setMode() { state.withLock { $0.mayHaveSetID = true } }

    private static let setID = S_ISUID | S_ISGID

    /// As write(2) does: what is written below, and when, is not for programs to see. Root's writes leave the bits: capabilities(7), CAP_FSETID.
    private func dropSetID() {
        guard geteuid() != 0, let mode = try? lower.status().st_mode, mode & Self.setID != 0 else { return }
        // Without permission for the group it is a file to be locked: inode(7).
        let kept = mode & S_IXGRP == 0 ? mode & S_ISGID : 0
        _ = fchmod(lower.descriptor, mode & 0o7777 & ~Self.setID | kept)  // a commit takes them away too
    }

    private static func now() -> timespec {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return now
    }

    // MARK: pages that come late

    /// Before the file is read or written: pages that were kept are written into it, and others can be kept from now on.
    ///
    /// - Throws: ENOKEY while it is locked and there are such pages.
    func mergeLatePages() throws(Errno) {
        let hasMerged = try late.withLock { late throws(Errno) in
            let pages = late.pages
            if let pages {
                try refusing { () throws(DataProtectionError) in try merge(pages) }
                late.pages = nil
            }
            if late.key == nil { late.key = try? file.latePagesKey() }  // locked: then it cannot be read either
            return pages != nil
        }
        if hasMerged { try? writers.leave(self) }  // it has committed
    }

    private func merge(_ pages: LatePagesFile) throws(DataProtectionError) {
        do throws(DataProtectionError) { try pages.merge(into: file) } catch {
            // Somebody has altered them. They stay in the queue, which says so, and keep nobody from the file.
            guard case .damaged(pages.path, _, _, _) = error else { throw error }
        }
    }

    /// Keeps what a program has stored in a mapping, and what the file cannot take, because it is locked.
    ///
    /// - Throws: why it is lost: ENOSPC for example. msync(2) says so.
    func keep(page bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(Errno) {
        try late.withLock { late throws(Errno) in
            if late.pages == nil {
                guard let key = late.key else { throw .noKey }
                late.pages = try writers.keepPages(of: self, under: key)
            }
            let pages = late.pages
            try refusing { () throws(DataProtectionError) in try pages?.add(bytes, at: offset) }
        }
    }

    /// Tries once more to put pages on the disk that are only in memory.
    func storeLatePages() { late.withLock { try? $0.pages?.flush() } }

    /// Whether ``keep(page:at:)`` has its key.
    var canKeepPages: Bool { late.withLock { $0.key != nil } }

    /// Whether pages are kept.
    var hasLatePages: Bool { late.withLock { $0.pages != nil } }

    /// The kernel has no pages of `complete` files any more: what seals late ones must not outlive a lock.
    func forgetKeyOfPages() {
        // Locked: it is.
        guard (try? file.openedClass()) ?? .complete == .complete else { return }
        late.withLock { late in
            late.key = nil
            late.pages?.forgetKey()
        }
    }

    /// Makes last what was written. Needs no key.
    ///
    /// - Parameter always: whether to flush also where nothing was written: fsync(2).
    /// - Throws: the first error, again each time: nothing more is written after it.
    func commit(always: Bool = false) throws(Errno) {
        let isUncommitted = state.withLock { state in
            defer {
                state.isUncommitted = false
                state.schedule.committed()
            }
            return state.isUncommitted
        }
        guard isUncommitted || always else { return }
        try late.withLock { late throws(Errno) in
            let pages = late.pages
            try refusing { () throws(DataProtectionError) in try pages?.flush() }
        }
        do throws(Errno) { try keepingSetID { () throws(DataProtectionError) in try file.sync() } } catch {
            // Closed meanwhile by its last handle, which has committed. RELEASE comes after close(2) has returned.
            if error == .badFileDescriptor { return }
            state.withLock { $0.isUncommitted = true }
            record?.mark(node, .lost)  // also for open handles that another server serves later
            throw error
        }
        keepTime()
    }

    /// - Parameter delay: in nanoseconds.
    private func comeBack(after delay: UInt64) {
        rounds.add(after: delay) { [weak self] in
            guard let self else { return }
            switch state.withLock({ $0.schedule.due(at: Clock.monotonic()) }) {
            case .rest: return
            case .wait(let more): comeBack(after: more)
            case .commit:
                // A disk that is slow holds up no other file. An error is said again by each later call.
                BackgroundWork.perform { try? self.commit() }
            }
        }
    }

    /// Commits and closes.
    func close() throws(Errno) {
        defer { keepTime() }
        // Nobody can read a file any more that has no name.
        late.withLock { late in if (try? lower.status().st_nlink) == 0 { late.pages?.remove() } }
        try keepingSetID { () throws(DataProtectionError) in try file.close() }
    }

    /// What is written below takes set-user-ID bits away that a program has set since its own write.
    private func keepingSetID(_ body: () throws(DataProtectionError) -> Void) throws(Errno) {
        let mode = (try? lower.status().st_mode) ?? 0
        defer { if mode & Self.setID != 0, geteuid() != 0 { _ = fchmod(lower.descriptor, mode & 0o7777) } }
        try refusing { () throws(DataProtectionError) in try body() }
    }

    // MARK: attributes

    /// utimensat(2) is over: no commit is to change that time again.
    func setModified(_ time: FuseChange.Time) {
        let time =
            switch time {
            case .now: Self.now()
            case .at(let time): time
            }
        state.withLock { $0.modified = time }
    }

    /// A commit is no change of the file: programs wrote when they wrote.
    private func keepTime() {
        guard let modified = state.withLock({ $0.modified }) else { return }
        // Refused to somebody who may write to the file and does not own it: then it has the time of the commit.
        var times = [timespec(tv_sec: 0, tv_nsec: FileTimes.omit), modified]
        _ = futimens(lower.descriptor, &times)
    }

    /// Puts size and time into the status of the file below.
    ///
    /// - Returns: false if it was closed meanwhile: then the file below says all.
    func show(in status: inout stat) throws(Errno) -> Bool {
        do throws(DataProtectionError) { status.st_size = off_t(try file.size()) } catch {
            guard error.errno != .badFileDescriptor else { return false }
            // Locked: all was committed then, and the head says the size.
            status.st_size = try refusing { () throws(DataProtectionError) in
                off_t(try ProtectedFileInfo(path: lower.path, file: lower).size)
            }
        }
        let (modified, isUncommitted) = state.withLock { ($0.modified, $0.isUncommitted) }
        if let modified {
            status.st_mtim = modified
            // The file below changes with the commit.
            let isLater = (modified.tv_sec, modified.tv_nsec) > (status.st_ctim.tv_sec, status.st_ctim.tv_nsec)
            if isUncommitted, isLater { status.st_ctim = modified }
        }
        return true
    }
}

/// utimensat(2): times that are no times. The macros of sys/stat.h are not imported.
enum FileTimes {
    /// UTIME_NOW.
    static let now = (1 << 30) - 1
    /// UTIME_OMIT.
    static let omit = (1 << 30) - 2

    static func timespec(_ time: FuseChange.Time?) -> timespec {
        switch time {
        case nil: Glibc.timespec(tv_sec: 0, tv_nsec: omit)
        case .now: Glibc.timespec(tv_sec: 0, tv_nsec: now)
        case .at(let time): time
        }
    }
}
