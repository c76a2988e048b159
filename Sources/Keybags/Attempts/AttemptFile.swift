import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The record of wrong passcodes, written before each derivation. FORMAT.md §2.3.
package struct AttemptFile: Sendable {
    package static let name = "attempts"
    /// From this sequence on both sectors are begun again: what a change of boot and an attempt write has to be below 2^62 too.
    private static let lastSequence: UInt64 = (1 << 62) - 16

    package let directory: FilePath
    package let keybag: KeybagUUID

    package init(directory: FilePath, keybag: KeybagUUID) {
        self.directory = directory
        self.keybag = keybag
    }

    private var path: FilePath { directory.appending(Self.name) }
    private var tagKey: GuessTagKey { GuessTagKey(RingKeys(keybag)) }

    /// Makes the file of a new keybag: both sectors, no failures.
    package func create() throws(DataProtectionError) {
        let file = try LowerFile(path, flags: O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        let record = AttemptRecord(
            sequence: 1, keybag: keybag, failures: 0, guessTag: nil, bootTime: Clock.bootTime(), bootID: Clock.bootID())
        let sector = try withKeys { () throws(KeyError) in try record.encoded() }
        try file.write(sector + sector, at: 0)
        try file.flushAll()
    }

    /// Counts an attempt before it is made.
    ///
    /// - Returns: the record as it was, for ``failed(guess:before:)``.
    /// - Throws: `throttled` while a delay runs; `attemptsNotRecorded` if the count cannot be written.
    package func begin() throws(DataProtectionError) -> AttemptRecord {
        try withLock { file throws(DataProtectionError) in
            let (record, sector) = try current(in: file)
            let wait = AttemptDelay.remaining(of: record, now: Clock.bootTime())
            guard wait == 0 else {
                throw .because(KeybagFailure.throttled(keybag: directory, retryAfter: .seconds(wait)))
            }
            var next = record
            next.failures = record.failures == .max ? .max : record.failures + 1
            try write(next, replacing: sector, in: file)
            return record
        }
    }

    /// Notes that the attempt was wrong; the same wrong passcode twice in a row counts once.
    ///
    /// - Parameters:
    ///   - guess: what the derivation gave, FORMAT.md §1.1 row 7.
    ///   - before: what ``begin()`` returned.
    /// - Returns: failures so far, and the delay in seconds before the next try.
    package func failed(guess: UInt16, before: AttemptRecord) throws(DataProtectionError) -> (
        failures: Int, retryAfter: Int
    ) {
        try withLock { file throws(DataProtectionError) in
            let (record, sector) = try current(in: file)
            var next = record
            let tag = tagKey.tag(of: guess)
            if let tag, before.guessTag == tag, before.failures > 0, record.failures > 0 {
                next.failures = record.failures - 1
            } else {
                next.guessTag = tag
            }
            try write(next, replacing: sector, in: file)
            return (Int(next.failures), Int(AttemptDelay.seconds(afterFailures: next.failures)))
        }
    }

    /// Notes that the attempt was wrong, of a keybag that is bound to hardware: no tag is stored.
    ///
    /// - Returns: as ``failed(guess:before:)``.
    package func failed() throws(DataProtectionError) -> (failures: Int, retryAfter: Int) { try close(takingBack: 0) }

    /// Notes that the attempt does not count: it tested nothing, or the same passcode as before.
    ///
    /// - Returns: as ``failed(guess:before:)``.
    @discardableResult
    package func takeBack() throws(DataProtectionError) -> (failures: Int, retryAfter: Int) {
        try close(takingBack: 1)
    }

    private func close(takingBack count: UInt32) throws(DataProtectionError) -> (failures: Int, retryAfter: Int) {
        try withLock { file throws(DataProtectionError) in
            let (record, sector) = try current(in: file)
            var next = record
            next.failures = record.failures - min(count, record.failures)
            next.guessTag = nil
            try write(next, replacing: sector, in: file)
            return (Int(next.failures), Int(AttemptDelay.seconds(afterFailures: next.failures)))
        }
    }

    /// Notes that the passcode was right: both sectors forget everything, and the keyring forgets the key of the tag.
    package func succeeded() throws(DataProtectionError) {
        try withLock { file throws(DataProtectionError) in
            for _ in 0..<2 {
                var (record, sector) = try current(in: file)
                record.failures = 0
                record.guessTag = nil
                try write(record, replacing: sector, in: file)
            }
            tagKey.forget()
        }
    }

    /// The delay that runs now, in seconds.
    package func remainingDelay() throws(DataProtectionError) -> Int {
        try withLock { file throws(DataProtectionError) in
            AttemptDelay.remaining(of: try current(in: file).record, now: Clock.bootTime())
        }
    }

    private func withLock<R>(
        _ body: (LowerFile) throws(DataProtectionError) -> R
    ) throws(DataProtectionError) -> R {
        do throws(DataProtectionError) {
            let file = try LowerFile(path, flags: O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK)
            _ = try retrying(path, "flock") { flock(file.descriptor, LOCK_EX) }
            return try body(file)
        } catch .system(let path, _, let errno) {
            throw .because(KeybagFailure.attemptsNotRecorded(path, errno))
        }
    }

    /// The sector in force and its index, with a sequence that can be followed. Without one, or after a boot, the delay starts now.
    private func current(in file: LowerFile) throws(DataProtectionError) -> (record: AttemptRecord, sector: Int) {
        let bytes = try file.bytes(at: 0, count: 2 * AttemptRecord.length)
        let found = (0..<2).compactMap { index -> (AttemptRecord, Int)? in
            let sector = Array(bytes.dropFirst(index * AttemptRecord.length).prefix(AttemptRecord.length))
            guard let record = try? AttemptRecord(decoding: sector), record.keybag == keybag else { return nil }
            return (record, index)
        }
        let best = found.max { ($0.0.sequence, $1.1) < ($1.0.sequence, $0.1) }
        guard var (record, sector) = best else {
            var record = AttemptRecord(
                sequence: 1, keybag: keybag, failures: 8, guessTag: nil, bootTime: Clock.bootTime(),
                bootID: Clock.bootID())
            try write(record, replacing: 1, in: file)
            record.sequence += 1
            return (record, 0)
        }
        if record.sequence >= Self.lastSequence { (record, sector) = try beginAgain(record, sector, in: file) }
        if record.bootID != Clock.bootID() {
            sector = 1 - sector
            try write(record, replacing: 1 - sector, in: file)
            record.sequence += 1
            record.bootID = Clock.bootID()
            record.bootTime = Clock.bootTime()
        }
        return (record, sector)
    }

    /// Gives both sectors low sequences and changes nothing else: a sequence that nothing can follow was forged.
    ///
    /// The sector in force comes last. Until it is overwritten it stays in force, and then the other one says the same.
    private func beginAgain(
        _ record: AttemptRecord, _ sector: Int, in file: LowerFile
    ) throws(DataProtectionError) -> (record: AttemptRecord, sector: Int) {
        var record = record
        for (sequence, place) in [(1, 1 - sector), (2, sector)] as [(UInt64, Int)] {
            record.sequence = sequence
            try store(record, in: place, of: file)
        }
        return (record, sector)
    }

    private func write(
        _ record: AttemptRecord, replacing sector: Int, in file: LowerFile
    ) throws(DataProtectionError) {
        var next = record
        next.sequence += 1
        next.bootID = Clock.bootID()
        next.bootTime = Clock.bootTime()
        try store(next, in: 1 - sector, of: file)
    }

    private func store(
        _ record: AttemptRecord, in sector: Int, of file: LowerFile
    ) throws(DataProtectionError) {
        let bytes = try withKeys { () throws(KeyError) in try record.encoded() }
        try file.write(bytes, at: UInt64(sector * AttemptRecord.length))
        try file.flush()
    }
}

extension KeybagFile {
    /// Every name that a keybag directory has, for its modes.
    package static let allNames = names + [AttemptFile.name, TransitionFile.name]
}
