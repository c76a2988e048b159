import DurableFiles
import Glibc
import ProtectionFormat
import SystemPackage

/// The order of locks and unlocks, under a short flock that is never held across a derivation. FORMAT.md §2.4.
package struct TransitionFile: Sendable {
    package static let name = "transition"

    package let directory: FilePath

    package init(directory: FilePath) { self.directory = directory }

    private var path: FilePath { directory.appending(Self.name) }

    /// Makes the file of a new keybag.
    package func create() throws(DataProtectionError) {
        let file = try LowerFile(path, flags: O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        try file.write(TransitionRecord().encoded, at: 0)
        try file.flushAll()
    }

    /// What the file says now; nothing if it cannot be read. None is made, perhaps where a keybag has just been erased.
    package func read() -> TransitionRecord {
        guard let file = try? LowerFile(path, flags: O_RDWR | O_NOFOLLOW | O_NONBLOCK),
            let bytes = try? file.bytes(at: 0, count: TransitionRecord.length)
        else { return TransitionRecord() }
        return TransitionRecord(decoding: bytes)
    }

    /// What the file says now.
    package func readStrictly() throws(DataProtectionError) -> TransitionRecord {
        let file = try LowerFile(path, flags: O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK)
        return TransitionRecord(decoding: try file.bytes(at: 0, count: TransitionRecord.length))
    }

    /// What the file says while nobody locks or unlocks; nil if somebody does. Waits for nobody, but may hold a lock up for
    /// some milliseconds: not for what is done often.
    package func readAtRest() -> TransitionRecord? {
        guard let file = try? LowerFile(path, flags: O_RDWR | O_NOFOLLOW | O_NONBLOCK),
            flock(file.descriptor, LOCK_SH | LOCK_NB) == 0,
            let bytes = try? file.bytes(at: 0, count: TransitionRecord.length)
        else { return nil }
        return TransitionRecord(decoding: bytes)
    }

    /// Runs `body` under the lock, if nobody has it, or if there is no such file.
    package func ifFree(_ body: () -> Void) {
        guard let file = try? LowerFile(path, flags: O_RDWR | O_NOFOLLOW | O_NONBLOCK) else { return body() }
        if flock(file.descriptor, LOCK_EX | LOCK_NB) == 0 { body() }
    }

    /// Changes the record under the lock; `body` may act in between, for example on the ring. It also sets the time if keys came
    /// or went.
    ///
    /// - Parameter isPatient: false for who must not wait for long: a stopped process can hold the lock for ever.
    /// - Throws: `busy` after a second without patience.
    package func exclusively<R>(
        isPatient: Bool = true, _ body: (inout TransitionRecord) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        let file = try LowerFile(path, flags: O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK)
        if isPatient {
            _ = try retrying(path, "flock") { flock(file.descriptor, LOCK_EX) }
        } else {
            guard waitsForLock(of: file) else { throw .busy(path) }
        }
        return try change(file, body)
    }

    /// - Returns: whether it came in a second.
    private func waitsForLock(of file: LowerFile) -> Bool {
        let deadline = Clock.monotonic() + 1_000_000_000
        while flock(file.descriptor, LOCK_EX | LOCK_NB) != 0 {
            guard Clock.monotonic() < deadline else { return false }
            usleep(5_000)
        }
        return true
    }

    /// The same for a lock, which waits at most a second for the others and then goes on without them. Raises the counter.
    package func exclusivelyOrAnyway(_ body: (inout TransitionRecord) throws(DataProtectionError) -> Void)
        throws(DataProtectionError)
    {
        guard let file = try? LowerFile(path, flags: O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK) else {
            // A directory that is gone or read-only must not keep anybody from locking.
            var record = TransitionRecord()
            return try body(&record)
        }
        _ = waitsForLock(of: file)
        var record = TransitionRecord(decoding: (try? file.bytes(at: 0, count: TransitionRecord.length)) ?? [])
        record.counter &+= 1  // a file altered to hold the last number must not keep anybody from locking
        // Raised before the keys go: an unlock that is under way sees it and loads nothing.
        try? file.write(record.encoded, at: 0)
        try body(&record)
        try? writeKeepingCounter(record, to: file)
    }

    private func change<R>(
        _ file: LowerFile, _ body: (inout TransitionRecord) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        let stored = try file.bytes(at: 0, count: TransitionRecord.length)
        var record = TransitionRecord(decoding: stored)
        if stored != record.encoded { try file.write(record.encoded, at: 0) }  // damaged: it begins anew
        let before = record
        let result = try body(&record)
        if record != before { try writeKeepingCounter(record, to: file) }
        return result
    }

    /// Writes all but magic and counter. A lock that waited in vain for the flock raises the counter without it: whoever
    /// holds the flock must not take that back.
    private func writeKeepingCounter(
        _ record: TransitionRecord, to file: LowerFile
    ) throws(DataProtectionError) {
        try file.write(Array(record.encoded[16...]), at: 16)
    }
}

extension TransitionRecord {
    /// Whether class keys A and B should have gone by now. The kernel is given two seconds to remove them.
    ///
    /// If the boot is unknown, here or in the record, the record counts. Every unlock writes it, so its time is that of the
    /// newest keys.
    package var isOverdue: Bool {
        let boot = Clock.bootID()
        let isOfThisBoot = bootID == boot || bootID == Clock.unknownBoot || boot == Clock.unknownBoot
        guard isOfThisBoot, let end = [deadline, limit].filter({ $0 != 0 }).min() else { return false }
        let now = Clock.bootTime()
        return now > end && now - end > 2_000_000_000
    }
}
