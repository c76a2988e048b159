package import GRDB
import GRDBSQLite
import Glibc
package import SystemPackage

/// Why a database that several processes share cannot be used.
package enum SharedDatabaseError: Error {
    /// It was altered or damaged.
    case damaged(FilePath, reason: String)
    /// It was written by a newer version.
    case newer(FilePath)
    /// It cannot be read or written; `code`: of SQLite.
    case failed(FilePath, code: Int32, reason: String)
    /// The operating system refused.
    case system(FilePath, operation: String, Errno)

    fileprivate init(_ error: any Error, _ path: FilePath) {
        switch error {
        case let own as SharedDatabaseError: self = own
        case let error as DatabaseError:
            let reason = error.message
            switch error.resultCode {
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: self = .damaged(path, reason: reason ?? "it is no database")
            default: self = .failed(path, code: error.resultCode.rawValue, reason: reason ?? "\(error.resultCode)")
            }
        default: self = .failed(path, code: 1, reason: "\(error)")
        }
    }
}

/// An SQLite database in a directory of ours, which any number of processes use at once.
///
/// In WAL mode, with `synchronous = FULL`: a change lasts when it returns. What is deleted is overwritten (`secure_delete`).
package enum SharedDatabase {
    /// Opens the database at `path`, or makes it, mode 0600, with the definitions of `schema`.
    ///
    /// - Parameter dropped: if given, triggers and views that somebody has planted are dropped, and their names are told to it.
    /// - Throws: `damaged` if anything else is defined in it; `newer` if a later version made it.
    package static func open(
        _ path: FilePath, label: String, _ schema: SharedSchema, droppingPlanted dropped: (([String]) -> Void)? = nil
    ) throws(SharedDatabaseError) -> DatabaseQueue {
        // SQLite would make it 0644; what it puts beside it has the same mode. Never opened here: closing it again would drop the
        // locks of every other connection of this process (fcntl_locking(2)), and another one would take away its log.
        guard path.withPlatformString({ mknod($0, S_IFREG | 0o600, 0) }) == 0 || errno == EEXIST else {
            throw .system(path, operation: "mknod", Errno(rawValue: errno))
        }
        // If another process creates the database at the same moment, its tables appear between two looks.
        for _ in 0..<20 {
            do throws(SharedDatabaseError) { return try openOnce(path, label, schema, dropped) } catch .failed {
                usleep(20_000)
            }
        }
        return try openOnce(path, label, schema, dropped)
    }

    private static func openOnce(
        _ path: FilePath, _ label: String, _ schema: SharedSchema, _ dropped: (([String]) -> Void)?
    ) throws(SharedDatabaseError) -> DatabaseQueue {
        try translating(path, unchanged) {
            var configuration = Configuration()
            configuration.busyMode = .timeout(10)
            configuration.label = label
            configuration.prepareDatabase { database in
                try distrust(database)
                try database.execute(sql: "PRAGMA journal_mode = WAL")
                try database.execute(sql: "PRAGMA synchronous = FULL")
                try database.execute(sql: "PRAGMA secure_delete = ON")
                // What SQLite sorts stays in memory, and in no file in a directory for all.
                try database.execute(sql: "PRAGMA temp_store = MEMORY")
            }
            let database = try DatabaseQueue(path: path.string, configuration: configuration)
            if let dropped {
                let names = try database.write(SharedSchema.dropPlanted)
                if !names.isEmpty { dropped(names) }
            }
            if try !database.read({ try schema.isComplete($0, path) }) {
                // Another process may have made them meanwhile.
                try database.write { try schema.prepare($0, path) }
            }
            return database
        }
    }

    /// Opens a second connection that only reads: who reads does not wait for a flush.
    package static func openToRead(_ path: FilePath, label: String) throws(SharedDatabaseError) -> DatabaseQueue {
        try translating(path, unchanged) {
            var configuration = Configuration()
            configuration.busyMode = .timeout(10)
            configuration.readonly = true
            configuration.label = label
            configuration.prepareDatabase { database in
                try distrust(database)
                try database.execute(sql: "PRAGMA temp_store = MEMORY")
            }
            return try DatabaseQueue(path: path.string, configuration: configuration)
        }
    }

    /// A database that somebody else may have written, as its bytes are: read in memory, so that nothing is locked, followed or made on the
    /// disk. What is stored in it runs no function that has an effect.
    ///
    /// - Parameter path: for errors.
    package static func inMemory(_ bytes: [UInt8], _ path: FilePath) throws(SharedDatabaseError) -> DatabaseQueue {
        guard !bytes.isEmpty else { throw .damaged(path, reason: "it is empty") }
        return try translating(path, unchanged) {
            var configuration = Configuration()
            configuration.prepareDatabase { database in
                try distrust(database)
            }
            let queue = try DatabaseQueue(configuration: configuration)
            try queue.writeWithoutTransaction { database in
                let count = sqlite3_int64(bytes.count)
                guard let copy = sqlite3_malloc64(sqlite3_uint64(bytes.count)) else {
                    throw DatabaseError(resultCode: .SQLITE_NOMEM)
                }
                bytes.withUnsafeBytes { copy.copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
                // SQLite frees the copy, also if this fails.
                let code = sqlite3_deserialize(
                    database.sqliteConnection, "main", copy.assumingMemoryBound(to: UInt8.self), count, count,
                    UInt32(SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY))
                guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
            }
            return queue
        }
    }

    /// The bytes of a new database with the definitions of `schema`, made in memory: as its file would have them, and no log beside it.
    ///
    /// - Parameter path: for errors.
    package static func image(
        _ path: FilePath, _ schema: SharedSchema, filledBy fill: (Database) throws -> Void
    ) throws(SharedDatabaseError) -> [UInt8] {
        try translating(path, unchanged) {
            let queue = try DatabaseQueue()
            try queue.write { database in
                try schema.prepare(database, path)
                try fill(database)
            }
            return try queue.read { database in
                var count: sqlite3_int64 = 0
                guard let start = sqlite3_serialize(database.sqliteConnection, "main", &count, 0) else {
                    throw DatabaseError(resultCode: .SQLITE_NOMEM)
                }
                defer { sqlite3_free(start) }
                return Array(UnsafeRawBufferPointer(start: start, count: Int(count)))
            }
        }
    }

    /// Whether the pages of a database, and its indexes, fit together: a row that is not found any more is a row that was lost.
    ///
    /// - Returns: what does not; nil if all does.
    package static func structuralDamage(_ database: Database) throws -> String? {
        let found = try String.fetchOne(database, sql: "PRAGMA integrity_check(1)")
        return found == "ok" ? nil : found ?? "it cannot be checked"
    }

    /// What is stored in a database runs no function that has an effect, and no virtual table, and cells are checked before they are read.
    /// SQLite has more of the kind (SQLITE_DBCONFIG_DEFENSIVE), behind a function that only C can call; ours do nothing that it forbids.
    private static func distrust(_ database: Database) throws {
        try database.execute(sql: "PRAGMA trusted_schema = OFF")
        try database.execute(sql: "PRAGMA cell_size_check = ON")
    }

    private static func unchanged(_ error: SharedDatabaseError) -> SharedDatabaseError { error }

    /// Runs what fails as databases do, or with an error of the caller's own.
    package static func translating<R, Own: Error>(
        _ path: FilePath, _ own: (SharedDatabaseError) -> Own, _ body: () throws -> R
    ) throws(Own) -> R {
        do { return try body() } catch let error as Own { throw error } catch {
            throw own(SharedDatabaseError(error, path))
        }
    }
}
