import DurableFiles
import Glibc
import ProtectionFormat
import SystemPackage

/// The order of locks and unlocks, under a short flock that is never held across a derivation. FORMAT.md §2.4.
package struct TransitionFile: Sendable {
    package static let name = "transition"

    package let directory: FilePath

    package init(directory: FilePath) { self.directory = directory }

    package var path: FilePath { directory.appending(Self.name) }

    /// Flags for open(2). All access is at offsets; a FIFO in the file's place must not make anybody wait.
    static let flags = O_NOFOLLOW | O_NONBLOCK

    /// Makes the file.
    ///
    /// - Parameter isNew: whether the keybag is new. Else an unlock may be under way that has seen a counter of an earlier file.
    package func create(isNew: Bool = true) throws(DataProtectionError) {
        let file = try LowerFile(path, flags: O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        try file.write((isNew ? TransitionRecord() : Self.newRecord()).encoded, at: 0)
        try file.flushAll()
    }

    /// Opens the file of a keybag for locks of bytes that are held for long; nil where it cannot be opened, and on NFS and SMB, where flock(2)
    /// locks all bytes: an unlock would wait as long.
    static func forLongLocks(ofKeybag keybag: FilePath) -> LowerFile? {
        let file = try? LowerFile(keybag.appending(name), flags: O_RDONLY | flags)
        return file.flatMap { SharedFileSystem.locksBytesByFlock($0.descriptor) ? nil : $0 }
    }

    // MARK: looking

    /// What the file says now; nothing if it cannot be read. None is made, perhaps where a keybag has just been erased.
    package func read() -> TransitionRecord { stored() ?? TransitionRecord() }

    /// The same, but nil if it cannot be read, or is damaged.
    package func stored() -> TransitionRecord? {
        let file = try? LowerFile(path, flags: O_RDONLY | Self.flags)
        return (try? file?.bytes(at: 0, count: TransitionRecord.length)).flatMap(TransitionRecord.init(validating:))
    }

    /// What the file says while nobody locks or unlocks; nil if somebody does. Waits for nobody, but may hold a lock up for
    /// some milliseconds: not for what is done often.
    package func readAtRest() -> TransitionRecord? {
        guard let file = try? LowerFile(path, flags: O_RDONLY | Self.flags),
            flock(file.descriptor, LOCK_SH | LOCK_NB) == 0,
            let bytes = try? file.bytes(at: 0, count: TransitionRecord.length)
        else { return nil }
        return TransitionRecord(decoding: bytes)
    }

    /// The record as it is now, for a caller that is about to load keys. A missing or damaged file starts anew.
    package func readStrictly() throws(DataProtectionError) -> TransitionRecord {
        let file = try openForWriting()
        let bytes = try file.bytes(at: 0, count: TransitionRecord.length)
        if let record = TransitionRecord(validating: bytes) { return record }
        return try exclusively { record in record }
    }

    /// Runs `body` under the lock, if nobody has it, or if there is no such file.
    package func ifFree(_ body: () -> Void) {
        guard let file = try? LowerFile(path, flags: O_RDWR | Self.flags) else { return body() }
        if flock(file.descriptor, LOCK_EX | LOCK_NB) == 0 { body() }
    }

    // MARK: turns

    /// Changes the record under the lock; `body` may act in between, for example on the ring. It also sets the time if keys came
    /// or went.
    ///
    /// - Parameter isPatient: false for a caller that must not wait long: a stopped process can hold the lock for ever.
    /// - Throws: `busy` after a second without patience.
    package func exclusively<R>(
        isPatient: Bool = true, _ body: (inout TransitionRecord) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        let end = Self.endOfPatience()
        // While this process waited, the file may have been removed or replaced: the flock of such a file is nobody's turn.
        for _ in 0..<8 {
            let file = try flocked(try openForWriting(), until: isPatient ? nil : end)
            defer { file.giveBackFlock() }
            if try file.isNamed(path) { return try change(file, body) }
        }
        throw .busy(path)
    }

    private func flocked(_ file: LowerFile, until end: UInt64?) throws(DataProtectionError) -> LowerFile {
        if let end {
            guard let file = try file.flocked(until: end) else { throw .busy(path) }
            return file
        }
        _ = try retrying(path, "flock") { flock(file.descriptor, LOCK_EX) }
        return file
    }

    /// A second from now, in nanoseconds of CLOCK_MONOTONIC.
    static func endOfPatience() -> UInt64 { Clock.monotonic() + 1_000_000_000 }

    private func openForWriting() throws(DataProtectionError) -> LowerFile {
        try LowerFile(path, flags: O_RDWR | O_CREAT | Self.flags)
    }

    private func change<R>(
        _ file: LowerFile, _ body: (inout TransitionRecord) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        let before: TransitionRecord
        if let stored = TransitionRecord(validating: try file.bytes(at: 0, count: TransitionRecord.length)) {
            before = stored
        } else {
            before = Self.newRecord()
            try file.write(before.encoded, at: 0)
        }
        var record = before
        let result = try body(&record)
        if record != before { try writeKeepingCounter(record, to: file) }
        return result
    }

    /// In the place of one that is missing or damaged.
    static func newRecord() -> TransitionRecord {
        TransitionRecord(beginningAnewAt: Clock.now(), random: UInt64.random(in: 0...UInt64.max))
    }

    /// Writes all but magic and counter. A lock that times out waiting for the flock raises the counter without it: the holder of the flock must not
    /// undo that.
    func writeKeepingCounter(
        _ record: TransitionRecord, to file: LowerFile
    ) throws(DataProtectionError) {
        let offset = TransitionRecord.counterEnd
        try file.write(Array(record.encoded[offset...]), at: UInt64(offset))
    }
}

extension TransitionRecord {
    /// Whether class keys A and B should have gone by now. The kernel is given two seconds to remove them.
    ///
    /// If the boot is unknown, here or in the record, the record counts. Every unlock writes it, so its time is that of the
    /// newest keys. In a time namespace nothing counts as over.
    package var isOverdue: Bool {
        guard let end = [deadline, limit].filter({ $0 != 0 }).min() else { return false }
        let now = Clock.bootTime()
        guard now > end && now - end > 2_000_000_000 else { return false }
        return Clock.isOfMachine && Clock.mayBeThisBoot(bootID)
    }
}
