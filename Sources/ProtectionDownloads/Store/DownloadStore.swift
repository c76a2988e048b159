import DataProtection
import FoundationEssentials
import GRDB
import Glibc
import ProtectionKeys
import ProtectionSecrets
import SharedDatabase
import Synchronization
import TrustedHTTP

/// The list of downloads on disk: `downloads/queue.sqlite` in the keybag's directory. FORMAT.md §2.14.
///
/// Any number of processes may use it. A change is one short transaction, and lasts when it returns (`synchronous = FULL`), but for
/// those which a power cut may take back: words for people, and what only claims less when it is lost.
/// States, counts and times can be read in every lock state, sealed values not before the first unlock.
final class DownloadStore: Sendable {
    static let databaseName = "queue.sqlite"

    let keybag: Keybag
    /// `downloads` in the keybag's directory.
    let directory: FilePath
    private let commits: GroupCommit
    /// Its own connection: who reads does not wait for a flush.
    private let reading: DatabaseQueue
    /// The inode of the list that is open.
    private let inode: ino_t?
    private let keyFile: StoreKeyFile
    private let key = Mutex<StoreKeyFile.Loaded?>(nil)
    /// Where credentials for all are kept, once that was needed.
    let kept = Mutex<SecretStore?>(nil)
    /// Requests that were opened already, and the bytes that they were sealed to.
    let requests = Mutex<[DownloadID: (sealed: Data, request: DownloadRequest)]>([:])
    static let requestsKept = 4096

    /// Opens the list, or begins one.
    ///
    /// - Throws: `storeDamaged`, `storeNewer`, `store`, `protection`.
    init(_ keybag: Keybag) throws(DownloadError) {
        self.keybag = keybag
        directory = keybag.directory.appending(DownloadsDirectory.name)
        keyFile = StoreKeyFile(keybag: keybag)
        try protected { [directory] () throws(DataProtectionError) in
            try OwnDirectory.makeLast(directory)
            try StoreMachine.claim(directory)
        }
        let path = directory.appending(Self.databaseName)
        commits = GroupCommit(
            try shared { [path] () throws(SharedDatabaseError) in
                try SharedDatabase.open(path, label: "protectfs.downloads", DownloadSchema.definitions)
            }, checking: SchemaWatch(DownloadSchema.definitions, path).check)
        reading = try shared { [path] () throws(SharedDatabaseError) in
            try SharedDatabase.openToRead(path, label: "protectfs.downloads.reading")
        }
        inode = Self.inode(of: path)
    }

    private static func inode(of path: FilePath) -> ino_t? {
        var status = stat()
        return path.withPlatformString { stat($0, &status) } == 0 ? status.st_ino : nil
    }

    /// SQLite goes on for ever with a list that was erased with its keybag, and nobody else would see what it says.
    private func requireInPlace() throws(DownloadError) {
        if let inode, Self.inode(of: path) == inode { return }
        guard OwnDirectory.exists(keybag.directory) else {
            throw .protection(.because(KeybagFailure.keybagNotFound(keybag.directory)))
        }
        throw .protection(.system(path, operation: "stat", .noSuchFileOrDirectory))
    }

    /// What is noted of time: milliseconds since 1970.
    static var now: Int64 { Int64(clamping: Clock.wallTime() / 1_000_000) }

    var path: FilePath { directory.appending(Self.databaseName) }

    // MARK: transactions

    /// Reads in one transaction.
    func read<R>(_ body: (Database) throws -> R) throws(DownloadError) -> R {
        try requireInPlace()
        return try Self.translating(path) { try reading.read(body) }
    }

    /// Changes in one transaction. When this returns it lasts; when it throws nothing has changed.
    func write<R>(_ body: (Database) throws -> R) throws(DownloadError) -> R {
        try requireInPlace()
        return try Self.translating(path) { try commits(isLasting: true, body) }
    }

    /// The same, but a power cut may take it back: no flush, and those of later changes make it last too. A kill takes nothing back.
    func writeWithoutFlush<R>(_ body: (Database) throws -> R) throws(DownloadError) -> R {
        try requireInPlace()
        return try Self.translating(path) { try commits(isLasting: false, body) }
    }

    /// The same, but together with the next change, or a moment later. A reader that looks before that does not see it.
    func writeSoon(_ body: @escaping @Sendable (Database) throws -> Void) { commits.soon(body) }

    /// Makes what was to be made soon, now.
    func makeWaiting() { commits.makeWaiting() }

    /// Makes what was changed without a flush last. The log is a file like any other: SQLite locks others (wal.html §2.2).
    ///
    /// - Returns: false if the disk does not take it.
    func flush() -> Bool {
        let log = FilePath(path.string + "-wal").withPlatformString { Glibc.open($0, O_RDONLY | O_CLOEXEC) }
        guard log >= 0 else { return true }
        defer { close(log) }
        return fdatasync(log) == 0
    }

    /// Does what waits for the disk without keeping other tasks from going on.
    func blocking<R: Sendable>(
        _ body: @escaping @Sendable (DownloadStore) throws(DownloadError) -> R
    ) async throws(DownloadError) -> R {
        do { return try await BlockingWork.run { [self] in try body(self) } } catch let error as DownloadError {
            throw error
        } catch {
            throw .store(path, code: 1, reason: "\(error)")
        }
    }

    private static func translating<R>(_ path: FilePath, _ body: () throws -> R) throws(DownloadError) -> R {
        try SharedDatabase.translating(path, DownloadError.init, body)
    }

    // MARK: sealed values

    /// Whether sealed values can be read now, or could be: false before the first unlock.
    var isOpen: Bool { (try? loadedKey()) != nil }

    func loadedKey() throws(DownloadError) -> StoreKeyFile.Loaded {
        if let loaded = key.withLock({ $0 }) { return loaded }
        let loaded = try keyFile.load { () throws(DownloadError) in
            try read { try Int.fetchOne($0, sql: DownloadSchema.sealedRows) == 0 }
        }
        key.withLock { $0 = loaded }
        return loaded
    }

    /// Seals the value of a column.
    func seal(_ value: [UInt8], _ column: SealedColumn, row: [UInt8]) throws(DownloadError) -> [UInt8] {
        let loaded = try loadedKey()
        return try withKeys { () throws(KeyError) in
            try value.lendBytes { value throws(KeyError) in try loaded.key.seal(value, at: column.place(row: row)) }
        }
    }

    /// Seals a secret.
    func seal(_ value: borrowing SecretBytes, _ column: SealedColumn, row: [UInt8]) throws(DownloadError) -> [UInt8] {
        let loaded = try loadedKey()
        do throws(KeyError) {
            return try value.withUnsafeBytes { value throws(KeyError) in
                try loaded.key.seal(value, at: column.place(row: row))
            }
        } catch {
            throw .cryptography(error)
        }
    }

    /// Opens the value of a column.
    ///
    /// - Throws: `storeDamaged` for what was altered, or is in another place than it was sealed for.
    func open(_ sealed: [UInt8], _ column: SealedColumn, row: [UInt8]) throws(DownloadError) -> [UInt8] {
        let loaded = try loadedKey()
        return try opening(column) { () throws(KeyError) in
            try loaded.key.open(sealed, at: column.place(row: row))
        }
    }

    /// Opens a secret.
    func openSecret(_ sealed: [UInt8], _ column: SealedColumn, row: [UInt8]) throws(DownloadError) -> SecretBytes {
        let loaded = try loadedKey()
        return try opening(column) { () throws(KeyError) in
            try loaded.key.openSecret(sealed, at: column.place(row: row))
        }
    }

    private func opening<R: ~Copyable>(
        _ column: SealedColumn, _ body: () throws(KeyError) -> R
    ) throws(DownloadError) -> R {
        do throws(KeyError) { return try body() } catch .authenticationFailed {
            let words = column.rawValue.split(separator: "\0").joined(separator: ".")
            throw .storeDamaged(path, reason: "a value of \(words) was altered, or sealed under another key")
        } catch {
            throw .cryptography(error)
        }
    }
}
