import Glibc
import ProtectionKeys
import SystemPackage

/// What an upgrade is to make of a directory: the classes, and whether of databases too.
struct UpgradePlan: Hashable, Sendable {
    /// The class of what no rule says anything of; nil: it stays as it is.
    let protectionClass: ProtectionClass?
    let rules: UpgradeRules?
    let includesDatabases: Bool

    /// The class that a file is to have at least; nil: it stays as it is.
    func wanted(for names: [[UInt8]]) -> ProtectionClass? {
        switch rules?.verdict(for: names) {
        case .atLeast(let named): named
        case .leave: nil
        case nil: protectionClass
        }
    }

    /// The default class that a directory is to have at least; nil: it stays as it is. `none` is no default.
    func wantedDefault(of names: [[UInt8]]) -> ProtectionClass? {
        let named: ProtectionClass?
        switch rules?.verdict(forAllIn: names) {
        case .atLeast(let rule): named = rule
        case .leave: named = nil
        case nil: named = protectionClass
        }
        return named == ProtectionClass.none ? nil : named
    }
}

/// What belongs to SQLite: a database, by its first bytes, and by their names the files that go with it.
enum DatabaseFile {
    /// The first 16 bytes of every database. <https://www.sqlite.org/fileformat.html> §1.3.
    private static let magic = Array("SQLite format 3".utf8) + [0]
    /// Write-ahead log, its index, rollback journal.
    private static let suffixes = ["-wal", "-shm", "-journal"].map { Array($0.utf8) }

    static func isDatabase(_ start: some Sequence<UInt8>) -> Bool { start.starts(with: magic) }

    /// The database that a file with this name goes with, if there is a file of that name.
    static func database(of name: [UInt8], in directory: LowerDirectory) -> FilePath.Component? {
        for suffix in suffixes where name.count > suffix.count && name.suffix(suffix.count).elementsEqual(suffix) {
            let own = FilePath(bytes: name.dropLast(suffix.count)).lastComponent
            if let own, let status = try? directory.status(of: own), status.st_mode & S_IFMT == S_IFREG { return own }
        }
        return nil
    }
}
