import DataProtection
import FoundationEssentials
import GRDB

/// Somebody has paused or cancelled the download meanwhile: what the runner wanted to note does not count.
struct Superseded: Error {}

/// What the runner notes. Every change is made only while the download is queued: a pause by another process wins.
extension DownloadStore {
    /// What has come, as the list knows it; nil: nothing.
    ///
    /// - Throws: `failed` if the row was altered; `unknownDownload`.
    func partial(of id: DownloadID) throws(DownloadError) -> PartialRecord? {
        let record = try record(id)
        if record.isDamaged, let failure = record.failure { throw .failed(failure) }
        return record.partial
    }

    /// Changes a queued download.
    ///
    /// - Parameter lasting: false for what may be taken back by a power cut.
    /// - Throws: ``Superseded``, ``DownloadError``.
    private func update(
        _ id: DownloadID, _ assignments: String, _ arguments: StatementArguments, lasting: Bool = true
    ) throws {
        let body = { (database: Database) in try Self.update(id, assignments, arguments, database) }
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

    /// Notes what has come. A part is noted before its file is there, so that the file is found however its process ends; its bytes are
    /// noted after their flush, never before.
    ///
    /// - Parameter isLasting: false for what a power cut may take back. The list claims fewer bytes then, or parts that are not there any
    ///   more, and files that no row names are looked for by name.
    func note(_ partial: PartialRecord, of id: DownloadID, isLasting: Bool = true) throws {
        let sealed = try encode(partial, .resource, id)
        let (received, length) = (Int64(clamping: partial.end), partial.resource.length.map { Int64(clamping: $0) })
        // New bytes, and not those that were there before a restart, make earlier failures forgotten.
        try update(
            id,
            """
            resource = ?, length = ?, received = ?, failures = CASE WHEN ? > furthest THEN 0 ELSE failures END, \
            furthest = max(furthest, ?)
            """, [sealed, length, received, received, received], lasting: isLasting)
    }

    /// Nothing of it is on disk any more.
    func forgetParts(of id: DownloadID) throws(DownloadError) {
        try write { database in
            try database.execute(
                sql: "UPDATE downloads SET resource = NULL, received = 0 WHERE id = ?", arguments: [Data(id.bytes)])
        }
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
            id,
            """
            state = ?, failure = ?, failures = failures + 1, activity = 0, ended = ?, received = 0, resource = NULL
            """, [DownloadState.failed.rawValue, sealed, Self.now])
    }

    /// So much was sent; a word for people.
    func noteSent(_ count: UInt64, of length: UInt64?, for id: DownloadID) throws {
        try update(
            id, "received = ?, length = ?", [Int64(clamping: count), length.map { Int64(clamping: $0) }],
            lasting: false)
    }

    /// The server has acknowledged an upload: also of one that was paused meanwhile, which would be sent again.
    ///
    /// Removes the mark from the request, see ``spentRequest(of:)``.
    func endUpload(_ id: DownloadID, _ file: PublishedFile) throws(DownloadError) {
        let sealed = try encode(file, .result, id)
        // Whatever cannot be read now: that the server has the file is noted.
        let spent = (try? spentRequest(of: id)) ?? nil
        let length = Int64(clamping: file.length)
        try write { database in
            try database.execute(
                sql: """
                    UPDATE downloads
                    SET state = ?, request = coalesce(?, request), result = ?, received = ?, length = ?, failure = NULL,
                        activity = 0, ended = ?
                    WHERE id = ? AND state IN (?, ?)
                    """,
                arguments: [
                    DownloadState.finished.rawValue, spent, sealed, length, length, Self.now, Data(id.bytes),
                    DownloadState.queued.rawValue, DownloadState.paused.rawValue,
                ])
            try Self.forgetCredentials(of: id, database)
        }
    }

    /// The request without its mark: if somebody sets the state of an upload that is over back while the keybag is locked, the file is not sent
    /// again, with what it holds by then.
    ///
    /// - Returns: sealed; nil if the request cannot be opened.
    func spentRequest(of id: DownloadID) throws(DownloadError) -> Data? {
        guard let request = try record(id).request else { return nil }
        return try encode(StoredRequest(request), .request, id)
    }

    /// Resets what a run that has died noted of its current activity.
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
            try database.cachedStatement(sql: "UPDATE downloads SET resource = NULL WHERE id = ?").execute(
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
                    UPDATE downloads SET state = ?, result = NULL, received = 0, resource = NULL
                    WHERE id = ? AND state = ?
                    """,
                arguments: [DownloadState.queued.rawValue, Data(id.bytes), DownloadState.publishing.rawValue])
        }
    }
}
