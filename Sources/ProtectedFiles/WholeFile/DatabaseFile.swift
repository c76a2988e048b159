import DurableFiles
import Glibc
import Keybags
import SystemPackage

/// What a plaintext file has to do with a SQLite database.
///
/// SQLite opens the files beside a database by their names. If the database is ciphertext, a committed transaction in its write-ahead
/// log is written over that ciphertext as plaintext; if the log is ciphertext, SQLite removes it with the transactions in it.
package enum DatabaseFile: Hashable {
    /// A database: by its first bytes, or by a log of SQLite beside it, as with encrypted databases and those that are being made.
    /// `holding` is a file beside it that may hold data which is not in the database yet.
    case database(holding: FilePath?)
    /// A write-ahead log, its index, or a rollback journal of the database of that path.
    case part(of: FilePath)

    /// <https://www.sqlite.org/fileformat.html> §1.3, §3, §4.1: the first bytes of a database, of a journal, and of logs of either byte
    /// order.
    private static let magic = Array("SQLite format 3".utf8) + [0]
    private static let logMagics: [[UInt8]] = [
        [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7], [0x37, 0x7F, 0x06, 0x82], [0x37, 0x7F, 0x06, 0x83],
    ]
    private static let suffixes = ["-wal", "-shm", "-journal"].map { Array($0.utf8) }
    private static let longestName = 255

    /// Nil for a file that has nothing to do with one.
    ///
    /// - Parameter start: the first 16 bytes of the file, or fewer if it is shorter.
    /// - Throws: `system` if what lies beside it cannot be read.
    package init?(_ entry: DirectoryEntry, start: some Collection<UInt8>) throws(DataProtectionError) {
        if let database = try Self.database(of: entry, isLog: start.isEmpty || Self.isLog(start)) {
            self = .part(of: database)
            return
        }
        let isDatabase = start.starts(with: Self.magic)
        let holding = try Self.holding(beside: entry, isDatabase: isDatabase)
        guard isDatabase || holding != nil else { return nil }
        self = .database(holding: holding)
    }

    private static func isLog(_ start: some Collection<UInt8>) -> Bool { logMagics.contains { start.starts(with: $0) } }

    /// The database that a file of this name goes with. A protected database cannot be told by its first bytes: then those of the log
    /// count, and an empty file is a log.
    private static func database(of entry: DirectoryEntry, isLog: Bool) throws(DataProtectionError) -> FilePath? {
        let name = FilePath(root: nil, [entry.name]).bytes
        for suffix in suffixes where name.count > suffix.count && name.suffix(suffix.count).elementsEqual(suffix) {
            guard let own = FilePath(bytes: name.dropLast(suffix.count)).lastComponent,
                let start = try entry.directory.firstBytes(of: own, count: magic.count),
                isLog || start.starts(with: magic)
            else { continue }
            return entry.directory.path.entry(own)
        }
        return nil
    }

    /// The first file beside a database that may hold data.
    private static func holding(
        beside entry: DirectoryEntry, isDatabase: Bool
    ) throws(DataProtectionError) -> FilePath? {
        let name = FilePath(root: nil, [entry.name]).bytes
        for suffix in suffixes where name.count + suffix.count <= longestName {
            guard let beside = FilePath(bytes: name + suffix).lastComponent,
                let start = try entry.directory.firstBytes(of: beside, count: magic.count), let first = start.first
            else { continue }
            // SQLite makes a journal one that is done with by a zero at its beginning.
            let isDone = suffix == suffixes[2] && first == 0
            if isDatabase ? !isDone : isLog(start) { return entry.directory.path.entry(beside) }
        }
        return nil
    }
}

extension LowerDirectory {
    /// The first bytes of a regular file, or fewer if it is shorter; nil if there is none of that name.
    package func firstBytes(of name: FilePath.Component, count: Int) throws(DataProtectionError) -> [UInt8]? {
        guard let status = try status(of: name), status.st_mode & S_IFMT == S_IFREG else { return nil }
        do throws(DataProtectionError) {
            return try file(name, flags: O_RDONLY, path: path.entry(name)).bytes(at: 0, count: count)
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return nil  // it has just gone
        }
    }
}
