import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import SystemPackage

/// What every conversion asks before it takes a file for plaintext: `protect`, an upgrade, and Foundation's attributes.
extension ConversionSource {
    /// Whether it is a protected file, intact or not.
    ///
    /// Fewer bytes than the magic has hold nothing of one, and are plaintext here: FORMAT.md §3.7 lets only readers refuse them.
    package func isProtected() throws(DataProtectionError) -> Bool {
        guard try file.length() >= UInt64(Prefix.magic.count) else { return false }
        return try file.isOneOfOurs()
    }

    /// - Parameters:
    ///   - includingDatabases: whether a SQLite database may be converted, unless it is in use.
    ///   - keybag: whose device key stays as it is, wherever it lies; nil: of any.
    /// - Throws: `ownData`; `mangled`: it was a protected file, and would be of no use to anybody inside of another one; `database`,
    ///   `databaseInUse`.
    package func requireConvertible(includingDatabases: Bool, _ keybag: Keybag?) throws(DataProtectionError) {
        try file.requireUnmangled()
        let start = try file.bytes(at: 0, count: OwnBeginning.length)
        if OwnBeginning.isOne(start) { throw .because(FileFailure.ownData(entry.path)) }
        if let keybag, try isDeviceKey(of: keybag) { throw .because(FileFailure.ownData(entry.path)) }
        switch try DatabaseFile(entry, start: start.prefix(16)) {
        case .part(let database): throw .because(FileFailure.database(entry.path, of: database))
        case .database where !includingDatabases: throw .because(FileFailure.database(entry.path, of: entry.path))
        case .database(let holding?): throw .because(FileFailure.databaseInUse(entry.path, holding: holding))
        case .database(nil), nil: break
        }
    }

    /// By its inode: it may have other names. The keybag says where it is; `XDG_STATE_HOME` may be another one by now.
    private func isDeviceKey(of keybag: Keybag) throws(DataProtectionError) -> Bool {
        var key = stat()
        let path = FilePath(bytes: keybag.lastKnown.devicePath)
        guard path.withPlatformString({ stat($0, &key) }) == 0 else { return false }
        return try file.status().isSameItem(as: key)
    }

    /// The error with which ``Keybag/protect(_:as:includingDatabases:progress:)`` would refuse a file for what it is; nil if nothing is against
    /// it, or if the file cannot be looked at.
    package static func obstacle(_ path: FilePath) -> DataProtectionError? {
        do throws(DataProtectionError) {
            try ConversionSource(path).requireConvertible(includingDatabases: false, nil)
        } catch {
            switch error {
            case .because(FileFailure.mangled), .because(FileFailure.database), .because(FileFailure.databaseInUse),
                .because(FileFailure.ownData):
                return error
            default: break
            }
        }
        return nil
    }
}
