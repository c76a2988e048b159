import DataProtection
import FoundationEssentials
import GRDB
import ProtectionKeys
import SharedDatabase

/// What a backup, or a restore, did with secrets.
package struct SecretBackupResult: Sendable {
    /// Copied, or brought back.
    package internal(set) var done = 0
    /// Of this device only; or, in a restore, there already with the same value.
    package internal(set) var leftOut = 0
    /// Those whose class key the backup has not got.
    package internal(set) var withoutKey = 0
    /// Copies that stay in the backup because the store has no secrets.
    package internal(set) var onlyInBackup = 0
    /// Rows that make no sense or do not open, and those that could not be brought back.
    package internal(set) var failures: [SecretError] = []
    /// Why a copy was not brought back, but an earlier one that was kept beside it.
    package internal(set) var restoredEarlier: [SecretError] = []
}

/// Secrets in a backup: the same table, rows as they are stored, those of this device only left out. FORMAT.md §2.16.
extension SecretStore {
    /// Copies secrets as they are stored. In every lock state; no key is needed.
    ///
    /// The copy appears whole, in place of an earlier one, and lasts when this returns. A row that does not open, makes no sense, or whose
    /// class key the backup has not got, replaces nothing: its earlier copy stays. While its class key is not here nobody can tell whether
    /// a row opens. Then it is copied, and the copy that it replaces is kept beside it, until a later call has opened the row. So is a copy
    /// whose own class key is not here: a row that opens may be an older one, put in its secret's place while locked.
    ///
    /// A deleted secret cannot be told from a lost row. So copies without a row stay, unless `removesDeleted` is true.
    /// - Parameters:
    ///   - backup: the backup's directory.
    ///   - keys: those that the backup has: what nobody could ever open is not copied.
    ///   - removesDeleted: whether to remove copies without a row. If the store has no rows, they stay.
    /// - Throws: `storeDamaged` about this store, or the copy in the backup: then nothing is replaced.
    package func copy(
        to backup: LowerDirectory, having keys: SecretKeyNames, removingDeleted removesDeleted: Bool = false
    ) throws(SecretError) -> SecretBackupResult {
        var result = SecretBackupResult()
        let rows = try wholeTable()
        var copy = try SecretCopy(in: backup, of: keybag.uuid, removesDeleted: removesDeleted && !rows.isEmpty)
        for row in rows {
            guard let row = SecretRow(row) else {
                result.failures.append(.storeDamaged(path, reason: "a secret holds what none of ours does"))
                // Which one it was may be among what was altered.
                copy.keepAll()
                continue
            }
            if row.record.accessibility.isThisDeviceOnly {
                result.leftOut += 1
                // It may have been altered to say so.
                guard copy.holds(row.record) else { continue }
                switch judge(row) {
                case .opens: holdsUnknown(row, copy) ? copy.keep(row.record) : copy.drop(row.record)
                case .damaged(let error):
                    result.failures.append(error)
                    copy.keep(row.record)
                case .unknown: copy.keep(row.record)
                }
            } else if keys.contains(row.classKey(of: keybag.uuid)) {
                switch judge(row) {
                case .opens:
                    result.done += 1
                    copy.add(row, keepingReplaced: holdsUnknown(row, copy))
                case .damaged(let error):
                    result.failures.append(error)
                    copy.keep(row.record)
                case .unknown:
                    result.done += 1
                    copy.add(row, keepingReplaced: true)
                }
            } else {
                result.withoutKey += 1
                copy.keep(row.record)
            }
        }
        if rows.isEmpty { result.onlyInBackup = copy.count }
        try copy.store()
        return result
    }

    private enum Judgement {
        case opens
        case damaged(SecretError)
        /// Its class key is not here.
        case unknown
    }

    private func judge(_ row: SecretRow) -> Judgement {
        do throws(SecretError) { _ = try open(row) } catch {
            return error.leavesNoValue ? .damaged(error) : .unknown
        }
        return .opens
    }

    /// Whether the row conflicts with a copy whose class key is not here.
    private func holdsUnknown(_ row: SecretRow, _ copy: SecretCopy) -> Bool {
        copy.holds(row.record) { if case .unknown = judge($0) { true } else { false } }
    }

    /// All rows. That none is missing, as far as SQLite can tell, is checked first.
    private func wholeTable() throws(SecretError) -> [Row] {
        try read { database in
            if let damage = try SharedDatabase.structuralDamage(database) {
                throw SecretError.storeDamaged(path, reason: damage)
            }
            return try Row.fetchAll(database, sql: "SELECT \(SecretSchema.columns) FROM secrets")
        }
    }
}

/// What a backup's two databases of secrets are going to have.
private struct SecretCopy {
    private let backup: LowerDirectory
    private let keybag: KeybagUUID
    private let removesDeleted: Bool
    /// As they are.
    private let copies, earlier: BackedUpSecrets

    /// Rows whose copies are removed, and rows whose earlier copies are removed.
    private var replaced: [SecretRecord] = []
    private var verified: [SecretRecord] = []
    private var kept: [SecretRow] = []
    private var new: [SecretRow] = []
    private var earlierKept: [SecretRow] = []
    /// What rows replace that nobody could verify.
    private var displaced: [SecretRow] = []

    /// - Parameter removesDeleted: whether to remove copies that conflict with no row.
    init(in backup: LowerDirectory, of keybag: KeybagUUID, removesDeleted: Bool) throws(SecretError) {
        (self.backup, self.keybag, self.removesDeleted) = (backup, keybag, removesDeleted)
        copies = try BackedUpSecrets(Backup.secretsName, in: backup)
        earlier = try BackedUpSecrets(Backup.earlierSecretsName, in: backup)
    }

    /// Whether there is such a copy among those that a row of that id or name would replace.
    func holds(_ record: SecretRecord, where isSuch: (SecretRow) -> Bool = { _ in true }) -> Bool {
        copies.conflicting(with: record).contains(where: isSuch)
            || earlier.conflicting(with: record).contains(where: isSuch)
    }

    /// - Parameter keepsReplaced: whether to keep what the row replaces. An earlier copy that is kept already stays instead: that is the
    ///   one that was verified.
    mutating func add(_ row: SecretRow, keepingReplaced keepsReplaced: Bool) {
        new.append(row)
        guard keepsReplaced else { return drop(row.record) }
        replaced.append(row.record)
        earlierKept += earlier.conflicting(with: row.record)
        displaced += copies.conflicting(with: row.record).filter { copy in
            !copy.isSame(as: row, of: keybag) && earlier.conflicting(with: copy.record).isEmpty
        }
    }

    /// The copy of this one stays as it is.
    mutating func keep(_ record: SecretRecord) {
        kept += copies.conflicting(with: record)
        earlierKept += earlier.conflicting(with: record)
    }

    /// Removes the copies that conflict with this record.
    mutating func drop(_ record: SecretRecord) {
        replaced.append(record)
        verified.append(record)
    }

    var count: Int { copies.rows.count }

    mutating func keepAll() { (kept, earlierKept) = (copies.rows, earlier.rows) }

    /// Stores both so that a kill at any moment leaves every copy that is kept in one of them.
    func store() throws(SecretError) {
        let stay = removesDeleted ? kept : copies.rows(besides: replaced) + kept
        let earlierStay = removesDeleted ? earlierKept : earlier.rows(besides: verified) + earlierKept
        // In this order: of two with one id or name the later one stays.
        if !displaced.isEmpty {
            try BackedUpSecrets.replace(
                Backup.earlierSecretsName, in: backup, by: displaced + earlier.rows, keepsEmpty: false)
        }
        try BackedUpSecrets.replace(Backup.secretsName, in: backup, by: stay + new, keepsEmpty: true)
        try BackedUpSecrets.replace(
            Backup.earlierSecretsName, in: backup, by: displaced + earlierStay, keepsEmpty: false)
    }
}
