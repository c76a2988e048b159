import DataProtection
import FoundationEssentials
import GRDB
import SharedDatabase

/// Reading the list, and the changes that somebody asks for. Each is one transaction.
extension DownloadStore {
    /// All downloads, in the order in which they were added; without what is sealed before the first unlock.
    func records() throws(DownloadError) -> [DownloadRecord] {
        try records("ORDER BY position")
    }

    /// Those in one of these states. Most of a long list is over, and need not be opened.
    func records(in states: Set<DownloadState>) throws(DownloadError) -> [DownloadRecord] {
        let states = states.map { "\($0.rawValue)" }.sorted().joined(separator: ", ")
        return try records("WHERE state IN (\(states)) ORDER BY position")
    }

    /// What tells that a download has changed. Nothing of it is sealed.
    struct Glance: Hashable, Sendable {
        fileprivate let values: [DatabaseValue]
    }

    /// One glance at all of them.
    func glances() throws(DownloadError) -> [DownloadID: Glance] {
        try read { database in
            var glances: [DownloadID: Glance] = [:]
            let rows = try Row.fetchCursor(
                database, sql: "SELECT id, state, activity, attempts, failures, received, length FROM downloads")
            while let row = try rows.next() {
                let id = DownloadID(stored: StoredRow(row).bytes(0))
                glances[id] = Glance(values: row.databaseValues.dropFirst().map { $0 })
            }
            return glances
        }
    }

    /// Those of `ids` that are there.
    func records(of ids: Set<DownloadID>) throws(DownloadError) -> [DownloadID: DownloadRecord] {
        if ids.isEmpty { return [:] }
        let sql = "SELECT \(DownloadRecord.columns) FROM downloads WHERE id = ?"
        let rows = try read { database in
            let statement = try database.cachedStatement(sql: sql)
            return try ids.compactMap { try Row.fetchOne(statement, arguments: [Data($0.bytes)]) }
        }
        return Dictionary(try records(rows).map { ($0.id, $0) }) { first, _ in first }
    }

    /// - Throws: `unknownDownload`.
    func record(_ id: DownloadID) throws(DownloadError) -> DownloadRecord {
        guard let record = try records(of: [id])[id] else { throw .unknownDownload(id) }
        return record
    }

    private func records(_ which: String) throws(DownloadError) -> [DownloadRecord] {
        let sql = "SELECT \(DownloadRecord.columns) FROM downloads \(which)"
        return try records(try read { try Row.fetchAll($0, sql: sql) })
    }

    private func records(_ rows: [Row]) throws(DownloadError) -> [DownloadRecord] {
        let isOpen = rows.isEmpty ? true : try canOpen()
        var records: [DownloadRecord] = []
        for row in rows { records.append(try DownloadRecord(row, self, isOpen: isOpen)) }
        return records
    }

    /// Whether what is sealed can be read.
    ///
    /// - Throws: what is wrong with the key, but for the time before the first unlock.
    func canOpen() throws(DownloadError) -> Bool {
        do throws(DownloadError) {
            _ = try loadedKey()
            return true
        } catch .beforeFirstUnlock {
            return false
        }
    }

    /// Adds a download. When this returns it is not forgotten.
    func add(_ request: DownloadRequest) throws(DownloadError) -> DownloadID { try add([request])[0].get() }

    /// Adds downloads, in their order, by one change.
    ///
    /// - Returns: for each its id, or `targetInList`.
    /// - Throws: what is wrong with the list; then none was added.
    func add(_ requests: [DownloadRequest]) throws(DownloadError) -> [Result<DownloadID, DownloadError>] {
        var rows: [(id: DownloadID, request: Data, credentials: [SealedCredential])] = []
        for request in requests {
            let id = try DownloadID.random()
            var credentials: [SealedCredential] = []
            for credential in request.credentials { credentials.append(try seal(credential, for: id)) }
            rows.append((id, try encode(request, id), credentials))
        }
        let now = Self.now
        return try write { database in
            try Self.forgetOld(database, now: now)
            let last = try Self.lastPosition(in: "downloads", database)
            // Not before: another process may add the same one at this moment.
            var targets = try targets(database)
            var results: [Result<DownloadID, DownloadError>] = []
            for (index, (request, row)) in zip(requests, rows).enumerated() {
                if request.upload == nil {
                    if !request.replacesExisting, let other = targets[request.target] {
                        results.append(.failure(.targetInList(request.target, other)))
                        continue
                    }
                    targets[request.target] = row.id
                }
                results.append(.success(row.id))
                try database.cachedStatement(
                    sql: """
                        INSERT INTO downloads (id, state, priority, position, added, began, request)
                        VALUES (?, ?, ?, ?, ?, ?, ?)
                        """
                ).execute(arguments: [
                    Data(row.id.bytes), DownloadState.queued.rawValue, request.priority, last + 1 + Int64(index), now,
                    now, row.request,
                ])
                for credential in row.credentials { try Self.insert(credential, database) }
            }
            return results
        }
    }

    /// The files that downloads which are not over are to become.
    private func targets(_ database: Database) throws -> [FilePath: DownloadID] {
        let states = [DownloadState.queued, .paused, .publishing].map { "\($0.rawValue)" }.joined(separator: ", ")
        let rows = try Row.fetchCursor(
            database, sql: "SELECT id, request FROM downloads WHERE state IN (\(states)) ORDER BY position")
        var targets: [FilePath: DownloadID] = [:]
        while let row = try rows.next() {
            let values = StoredRow(row)
            let id = DownloadID(stored: values.bytes(0))
            // One that somebody has altered becomes nothing.
            guard let request = try? request(values.data(1) ?? Data(), of: id), request.upload == nil else { continue }
            if targets[request.target] == nil { targets[request.target] = id }
        }
        return targets
    }

    /// The highest of a table; what somebody has altered does not count.
    static func lastPosition(in table: String, _ database: Database) throws -> Int64 {
        let sql = "SELECT max(position) FROM \(table) WHERE typeof(position) = 'integer' AND position < ?"
        return try Int64.fetchOne(database, sql: sql, arguments: [StoredRow.largest]) ?? 0
    }

    /// Changes the state, if it is one of `states` now.
    ///
    /// - Throws: `unknownDownload`, `wrongState`.
    func change(_ id: DownloadID, from states: [DownloadState], to state: DownloadState) throws(DownloadError) {
        let now = Self.now
        // A user who resumes a download by hand does not want to wait for the next try.
        let isResumed = state == .queued
        let spent = state == .cancelled ? try spentRequest(of: id) : nil
        try write { database in
            let there = try Self.state(of: id, database)
            guard let there else { throw DownloadError.unknownDownload(id) }
            let current = DownloadState(rawValue: there) ?? .failed
            guard states.contains(current) else { throw DownloadError.wrongState(id, current) }
            try database.execute(
                sql: """
                    UPDATE downloads SET state = ?, request = coalesce(?, request), activity = 0, ended = ? WHERE id = ?
                    """,
                arguments: [state.rawValue, spent, state.isOver ? now : nil, Data(id.bytes)])
            if state == .cancelled { try Self.forgetCredentials(of: id, database) }
            guard isResumed else { return }
            try database.execute(
                sql: "UPDATE downloads SET began = ?, notBefore = 0, failures = 0, failure = NULL WHERE id = ?",
                arguments: [now, Data(id.bytes)])
        }
    }

    /// Takes a download that is over, or whose row is damaged, out of the list.
    ///
    /// - Throws: `unknownDownload`, `wrongState`.
    func remove(_ id: DownloadID, isDamaged: Bool = false) throws(DownloadError) {
        try write { database in
            let there = try Self.state(of: id, database)
            guard let there else { throw DownloadError.unknownDownload(id) }
            let state = DownloadState(rawValue: there) ?? .failed
            guard state.isOver || isDamaged else { throw DownloadError.wrongState(id, state) }
            try database.execute(sql: "DELETE FROM downloads WHERE id = ?", arguments: [Data(id.bytes)])
        }
    }

    /// The number that is there as its state, 0 if it is none; nil if there is no such download.
    private static func state(of id: DownloadID, _ database: Database) throws -> Int? {
        let row = try Row.fetchOne(
            database, sql: "SELECT state FROM downloads WHERE id = ?", arguments: [Data(id.bytes)])
        return row.map { Int(StoredRow($0).number(0)) }
    }
}
