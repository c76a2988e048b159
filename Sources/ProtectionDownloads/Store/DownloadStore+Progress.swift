import DataProtection
import FoundationEssentials
import GRDB
import SharedDatabase

/// A file that a part of a download is in: `.NAME.protectfs-download-ID-number`.
struct SegmentRecord: Hashable, Sendable {
    let number: Int
    /// The offset of its first byte in the download.
    var start: UInt64
    /// Bytes of it that are flushed for certain.
    var synced: UInt64

    var end: UInt64 { start + synced }
}

/// Somebody has paused or cancelled the download meanwhile: what the runner wanted to note does not count.
struct Superseded: Error {}

/// What the runner notes. Every change is made only while the download is queued: whoever paused it in another process wins.
extension DownloadStore {
    /// The parts, in their order.
    func segments(of id: DownloadID) throws(DownloadError) -> [SegmentRecord] {
        try read { database in
            try Row.fetchAll(
                database, sql: "SELECT number, start, synced FROM segments WHERE download = ? ORDER BY number",
                arguments: [Data(id.bytes)]
            ).map {
                let values = StoredRow($0)
                let segment = SegmentRecord(
                    number: Int(values.number(0)), start: UInt64(values.number(1)), synced: UInt64(values.number(2)))
                guard !values.isDamaged else {
                    throw DownloadError.failed(
                        DownloadFailure(.damaged, "the list of its parts was altered or damaged"))
                }
                return segment
            }
        }
    }

    /// Changes a queued download and its segments in one transaction.
    ///
    /// - Parameter lasting: false for what may be taken back by a power cut.
    /// - Throws: ``Superseded``, ``DownloadError``.
    private func update(
        _ id: DownloadID, _ assignments: String, _ arguments: StatementArguments, lasting: Bool = true,
        _ further: (Database) throws -> Void = { _ in }
    ) throws {
        let body = { (database: Database) in
            guard try Self.update(id, assignments, arguments, database) else { return false }
            try further(database)
            return true
        }
        let isQueued = lasting ? try write(body) : try writeWithoutFlush(body)
        if !isQueued { throw Superseded() }
    }

    /// - Returns: whether it was queued.
    private static func update(
        _ id: DownloadID, _ assignments: String, _ arguments: StatementArguments, _ database: Database
    ) throws -> Bool {
        try database.cachedStatement(
            sql: "UPDATE downloads SET \(assignments) WHERE id = ? AND state = \(DownloadState.queued.rawValue)"
        ).execute(arguments: arguments + [Data(id.bytes)])
        return database.changesCount == 1
    }

    /// What the download does now. A word for people; nothing depends on it.
    func set(_ activity: DownloadActivity, of id: DownloadID) throws {
        try update(id, "activity = ?", [activity.rawValue], lasting: false)
    }

    /// A try to send something begins, if nobody has paused it meanwhile.
    func beginSending(_ id: DownloadID) throws {
        try update(id, Self.beginning, [DownloadActivity.transferring.rawValue], lasting: false)
    }

    /// A try begins. Words for people: it need not wait for them.
    func beginTry(_ id: DownloadID) {
        writeSoon { database in
            let arguments: StatementArguments = [DownloadActivity.transferring.rawValue]
            _ = try Self.update(id, Self.beginning, arguments, database)
        }
    }
    private static let beginning = "activity = ?, attempts = attempts + 1"

    /// A part begins: noted before its file is there, so that it is found however its process ends. That a power cut forgets it is
    /// no harm: what it loses is looked for by name.
    func add(_ segment: SegmentRecord, to id: DownloadID) throws {
        try update(id, "activity = activity", [], lasting: false) { database in
            try database.execute(
                sql: "INSERT OR REPLACE INTO segments (download, number, start, synced) VALUES (?, ?, ?, ?)",
                arguments: [Data(id.bytes), segment.number, Int64(segment.start), Int64(segment.synced)])
        }
    }

    /// What is downloaded is this, and begins anew: only the part `number` counts, of which nothing is there yet.
    func restart(_ id: DownloadID, as resource: ResourceIdentity, in number: Int) throws {
        let sealed = try encode(resource, .resource, id)
        let length = resource.length.map { Int64(clamping: $0) }
        // What a power cut brings back instead is a part that is not there any more, and then everything comes again.
        try update(
            id, "resource = ?, length = ?, received = 0, isWhole = 0", [sealed, length], lasting: false
        ) { database in
            try database.execute(sql: "DELETE FROM segments WHERE download = ?", arguments: [Data(id.bytes)])
            try database.execute(
                sql: "INSERT INTO segments (download, number, start, synced) VALUES (?, ?, 0, 0)",
                arguments: [Data(id.bytes), number])
        }
    }

    /// More is known of what is downloaded.
    func note(_ resource: ResourceIdentity, of id: DownloadID) throws {
        let sealed = try encode(resource, .resource, id)
        try update(id, "resource = ?, length = ?", [sealed, resource.length.map { Int64(clamping: $0) }])
    }

    /// Bytes are flushed: called after the flush, never before.
    ///
    /// - Parameter isLasting: false where a change that lasts follows at once. A note that is lost only claims less.
    func note(_ segment: SegmentRecord, of id: DownloadID, isLasting: Bool = true) throws {
        let received = Int64(clamping: segment.end)
        // New bytes, and not those that were there before a restart, make earlier failures forgotten.
        try update(
            id,
            """
            received = ?, failures = CASE WHEN ? > furthest THEN 0 ELSE failures END, furthest = max(furthest, ?)
            """, [received, received, received], lasting: isLasting
        ) { database in
            try database.execute(
                sql: "UPDATE segments SET synced = ? WHERE download = ? AND number = ?",
                arguments: [Int64(clamping: segment.synced), Data(id.bytes), segment.number])
        }
    }

    /// All parts are in the first one now.
    func joined(_ segment: SegmentRecord, of id: DownloadID) throws {
        try update(id, "received = ?", [Int64(clamping: segment.end)]) { database in
            try database.execute(
                sql: "DELETE FROM segments WHERE download = ? AND number <> ?",
                arguments: [Data(id.bytes), segment.number])
            try database.execute(
                sql: "UPDATE segments SET start = 0, synced = ? WHERE download = ? AND number = ?",
                arguments: [Int64(clamping: segment.synced), Data(id.bytes), segment.number])
        }
    }

    /// Nothing of it is on disk any more.
    func forgetSegments(of id: DownloadID) throws(DownloadError) {
        try write { database in
            try database.execute(sql: "DELETE FROM segments WHERE download = ?", arguments: [Data(id.bytes)])
            try database.execute(
                sql: "UPDATE downloads SET received = 0, isWhole = 0 WHERE id = ?", arguments: [Data(id.bytes)])
        }
    }

    /// Every byte is there.
    func noteWhole(_ id: DownloadID, length: UInt64, isLasting: Bool = true) throws {
        try update(id, "isWhole = 1, length = ?", [Int64(clamping: length)], lasting: isLasting)
    }

    /// A try has failed and will be made again.
    func retry(_ id: DownloadID, at time: Int64, after failure: DownloadFailure) throws {
        let sealed = try encode(failure, .failure, id)
        try update(
            id, "notBefore = ?, failures = failures + 1, failure = ?, activity = ?",
            [time, sealed, DownloadActivity.waitingToRetry.rawValue])
    }

    /// It will not go on by itself.
    func fail(_ id: DownloadID, with failure: DownloadFailure) throws {
        let sealed = try encode(failure, .failure, id)
        try update(
            id, "state = ?, failure = ?, failures = failures + 1, activity = 0, ended = ?",
            [DownloadState.failed.rawValue, sealed, Self.now])
    }

    /// It has failed, and nothing of it is to stay.
    func failAndForget(_ id: DownloadID, with failure: DownloadFailure) throws {
        let sealed = try encode(failure, .failure, id)
        try update(
            id, "state = ?, failure = ?, failures = failures + 1, activity = 0, ended = ?, received = 0, isWhole = 0",
            [DownloadState.failed.rawValue, sealed, Self.now]
        ) { database in
            try database.execute(
                sql: "DELETE FROM segments WHERE download = ?", arguments: [Data(id.bytes)])
        }
    }

    /// So much was sent; a word for people.
    func noteSent(_ count: UInt64, of length: UInt64?, for id: DownloadID) throws {
        try update(
            id, "received = ?, length = ?", [Int64(clamping: count), length.map { Int64(clamping: $0) }],
            lasting: false)
    }

    /// The server has acknowledged an upload: also of one that was paused meanwhile, which would be sent again.
    func endUpload(_ id: DownloadID, _ file: PublishedFile) throws(DownloadError) {
        let sealed = try encode(file, .result, id)
        let length = Int64(clamping: file.length)
        try write { database in
            try database.execute(
                sql: """
                    UPDATE downloads
                    SET state = ?, result = ?, received = ?, length = ?, failure = NULL, activity = 0, ended = ?
                    WHERE id = ? AND state IN (?, ?)
                    """,
                arguments: [
                    DownloadState.finished.rawValue, sealed, length, length, Self.now, Data(id.bytes),
                    DownloadState.queued.rawValue, DownloadState.paused.rawValue,
                ])
            try Self.forgetCredentials(of: id, database)
        }
    }

    /// Whoever said what it did is dead.
    func resetActivities() throws(DownloadError) {
        try write { try $0.execute(sql: "UPDATE downloads SET activity = 0") }
    }

    /// What is noted of their next try means nothing now; nor when they were added, if that is still to come.
    func clockWasSetBack(under ids: [DownloadID]) throws(DownloadError) {
        try write { database in
            for id in ids {
                try database.execute(
                    sql: "UPDATE downloads SET began = min(began, ?), notBefore = 0 WHERE id = ?",
                    arguments: [Self.now, Data(id.bytes)])
            }
        }
    }

    /// Everything is there and was checked. From now on it can only get its name, or fail to.
    func beginPublishing(_ id: DownloadID, _ file: PublishedFile) throws {
        let sealed = try encode(file, .result, id)
        try update(
            id, "state = ?, result = ?, received = ?, length = ?, activity = 0",
            [DownloadState.publishing.rawValue, sealed, Int64(clamping: file.length), Int64(clamping: file.length)])
    }

    /// What came of it. Nobody can pause or cancel it in between.
    ///
    /// - Parameter isLasting: false: after a power cut it may count as about to be published, and is then found under its name.
    func endPublishing(_ id: DownloadID, failure: DownloadFailure?, isLasting: Bool = true) throws(DownloadError) {
        let sealed: Data?
        if let failure { sealed = try encode(failure, .failure, id) } else { sealed = nil }
        let state: DownloadState = failure == nil ? .finished : .failed
        let body = { (database: Database) in
            try database.cachedStatement(
                sql: "UPDATE downloads SET state = ?, failure = ?, ended = ? WHERE id = ? AND state = ?"
            ).execute(arguments: [
                state.rawValue, sealed, Self.now, Data(id.bytes), DownloadState.publishing.rawValue,
            ])
            guard failure == nil else { return }
            try Self.forgetCredentials(of: id, database)
            try database.cachedStatement(sql: "DELETE FROM segments WHERE download = ?").execute(
                arguments: [Data(id.bytes)])
        }
        if isLasting { try write(body) } else { try writeWithoutFlush(body) }
        requests.withLock { $0[id] = nil }
    }

    /// What was about to be published had no name when its process ended: it is downloaded again.
    func takeBackPublishing(_ id: DownloadID) throws(DownloadError) {
        try write { database in
            try database.execute(
                sql: """
                    UPDATE downloads SET state = ?, result = NULL, received = 0, isWhole = 0
                    WHERE id = ? AND state = ?
                    """,
                arguments: [DownloadState.queued.rawValue, Data(id.bytes), DownloadState.publishing.rawValue])
        }
    }
}
