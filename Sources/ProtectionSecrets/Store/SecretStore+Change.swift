import DataProtection
import FoundationEssentials
import GRDB
public import ProtectionKeys

/// Adding, changing and deleting. Each is one transaction, and lasts when it returns.
extension SecretStore {
    /// Stores a secret that is not there yet.
    ///
    /// - Parameters:
    ///   - value: 65,536 bytes at most.
    ///   - group: nil: the private group.
    /// - Throws: `exists`, `locked`, `invalid`, `valueTooLong`, `needsUnlock`; `store`, `storeDamaged`, `protection`.
    @discardableResult
    public func add(
        _ name: SecretName, value: borrowing SecretBytes, accessibility: SecretAccessibility = .whenUnlocked,
        in group: AccessGroup? = nil
    ) throws(SecretError) -> SecretRecord {
        try put(name, value, group) { old in
            guard old == nil else { throw SecretError.exists(name, group ?? self.privateGroup) }
            return accessibility
        }
    }

    /// Stores a secret, whether it is there already or not; with `accessibility` in the place of a damaged one, too.
    ///
    /// A new value never gets a weaker accessibility from the row that it replaces. While locked, a process of the same user can delete
    /// a secret and add one of the same name *after first unlock*, and an attacker with the disk can put an old row back.
    /// ``update(_:value:accessibility:in:)`` keeps what it finds.
    /// - Parameter accessibility: nil: ``SecretAccessibility/whenUnlocked``, and of this device only if the secret that is there is. A
    ///   secret that has this value already keeps its accessibility.
    /// - Throws: `locked`, also if the one that is there cannot be read now; `invalid`, `valueTooLong`, `needsUnlock`; `store`,
    ///   `storeDamaged`, `protection`. Without accessibility also `damaged`, `otherKey`, `keyLost`: the row may have been of this
    ///   device only, and nothing shows it any more.
    @discardableResult
    public func set(
        _ name: SecretName, value: borrowing SecretBytes, accessibility: SecretAccessibility? = nil,
        in group: AccessGroup? = nil
    ) throws(SecretError) -> SecretRecord {
        try put(name, value, group, heals: accessibility != nil) { old in
            guard let old else { return accessibility ?? .whenUnlocked }
            do throws(SecretError) {
                let stored = try open(old)
                if accessibility == nil, stored.isEqual(to: value) { return old.record.accessibility }
            } catch {
                guard error.leavesNoValue else { throw error }
                return try accessibility ?? self.accessibility(inPlaceOf: old, that: error)
            }
            return accessibility ?? old.record.accessibility.whenUnlocked
        }
    }

    /// The accessibility of a new value in the place of a row that does not open as it is.
    ///
    /// The value is bound to the accessibility that it was stored with. If that alone was altered, the value opens under the original one,
    /// which then counts. Otherwise the row counts only if it says the strongest one.
    /// - Throws: `failure`, or what kept another accessibility from being tried.
    private func accessibility(
        inPlaceOf row: SecretRow, that failure: SecretError
    ) throws(SecretError) -> SecretAccessibility {
        var failure = failure
        for original in SecretAccessibility.allCases where original != row.record.accessibility {
            do throws(SecretError) {
                _ = try open(row.saying(original))
                return original.whenUnlocked
            } catch {
                if !error.leavesNoValue { failure = error }
            }
        }
        guard failure.leavesNoValue, row.record.accessibility.isThisDeviceOnly else { throw failure }
        return .whenUnlockedThisDeviceOnly
    }

    /// Changes the value of a secret that is there.
    ///
    /// - Parameter accessibility: nil: as it is, which takes a secret that opens.
    /// - Throws: `notFound`; `locked`, also if the one that is there cannot be read now; `invalid`, `valueTooLong`; without
    ///   accessibility `damaged`, `otherDevice`, `otherKey`, `keyLost` too; `store`, `storeDamaged`, `protection`.
    @discardableResult
    public func update(
        _ name: SecretName, value: borrowing SecretBytes, accessibility: SecretAccessibility? = nil,
        in group: AccessGroup? = nil
    ) throws(SecretError) -> SecretRecord {
        try put(name, value, group) { old in
            guard let old else { throw SecretError.notFound(name, group ?? self.privateGroup) }
            return try self.accessibility(accessibility, replacing: old)
        }
    }

    /// Gives a secret another accessibility: its value must be readable now.
    ///
    /// - Throws: `notFound`, `locked`, `damaged`, `otherDevice`, `otherKey`, `keyLost`.
    @discardableResult
    public func setAccessibility(
        _ accessibility: SecretAccessibility, of name: SecretName, in group: AccessGroup? = nil
    ) throws(SecretError) -> SecretRecord {
        let group = group ?? privateGroup
        return try write { database in
            guard let old = try row(name, group, database) else { throw SecretError.notFound(name, group) }
            let value = try open(old)
            return try store(value, name, group, accessibility, inPlaceOf: old.record, database)
        }
    }

    /// Deletes a secret, in every lock state; one that does not open, too.
    ///
    /// - Throws: `notFound`; `store`, `storeDamaged`.
    public func delete(_ name: SecretName, in group: AccessGroup? = nil) throws(SecretError) {
        let group = group ?? privateGroup
        try write { database in
            try remove(name, group, database)
            guard database.changesCount == 1 else { throw SecretError.notFound(name, group) }
        }
    }

    /// Deletes a secret if `value` is its value still. Compared in constant time.
    ///
    /// - Returns: whether it was. One that is not there, or has another value, is left as it is.
    /// - Throws: `locked`, `damaged`, `otherDevice`, `otherKey`, `keyLost`.
    @discardableResult
    public func delete(
        _ name: SecretName, ifValueIs value: borrowing SecretBytes, in group: AccessGroup? = nil
    ) throws(SecretError) -> Bool {
        let group = group ?? privateGroup
        return try write { database in
            guard let row = try row(name, group, database), try open(row).isEqual(to: value) else {
                return false
            }
            try remove(name, group, database)
            return true
        }
    }

    /// Deletes what makes no sense, in all groups: rows that hold what none of ours does, or that no name leads to. They keep an export
    /// from being whole, and retired class keys from being forgotten.
    ///
    /// What has a name and does not open stays: ``delete(_:in:)``.
    /// - Returns: how many there were.
    /// - Throws: `storeDamaged`, `store`.
    @discardableResult
    public func deleteDamaged() throws(SecretError) -> Int {
        try write { database in
            // Places, because an id may hold anything.
            let places = try Int64.fetchAll(database, sql: "SELECT rowid FROM secrets")
            let damaged = try places.filter { try !isSound($0, database) }
            for place in damaged {
                try database.execute(sql: "DELETE FROM secrets WHERE rowid = ?", arguments: [place])
            }
            return damaged.count
        }
    }

    /// Whether the row at a place makes sense, and its name leads to it.
    private func isSound(_ place: Int64, _ database: Database) throws -> Bool {
        let stored = try Row.fetchOne(
            database.cachedStatement(sql: "SELECT \(SecretSchema.columns) FROM secrets WHERE rowid = ?"),
            arguments: [place])
        guard let stored, let row = SecretRow(stored) else { return false }
        let found = try Int64.fetchOne(
            database.cachedStatement(sql: "SELECT rowid FROM secrets WHERE \(SecretSchema.isNamed)"),
            arguments: SecretColumns(row.record.name).arguments(in: row.record.group))
        return found == place
    }

    // MARK: how

    private func put(
        _ name: SecretName, _ value: borrowing SecretBytes, _ group: AccessGroup?, heals: Bool = false,
        _ choose: (SecretRow?) throws -> SecretAccessibility
    ) throws(SecretError) -> SecretRecord {
        return try write { try put(name, value, group ?? privateGroup, $0, heals: heals, choose) }
    }

    /// Stores a secret under the accessibility that `choose` gives for what is there.
    ///
    /// - Parameter heals: whether a row that is damaged gives way.
    @discardableResult
    func put(
        _ name: SecretName, _ value: borrowing SecretBytes, _ group: AccessGroup, _ database: Database, heals: Bool,
        _ choose: (SecretRow?) throws -> SecretAccessibility
    ) throws -> SecretRecord {
        try put(name, value, group, database, heals: heals) { old, _ in try choose(old) }
    }

    /// The same for what has to know whether a damaged row gave way.
    @discardableResult
    func put(
        _ name: SecretName, _ value: borrowing SecretBytes, _ group: AccessGroup, _ database: Database, heals: Bool,
        knowingDamage choose: (SecretRow?, _ wasDamaged: Bool) throws -> SecretAccessibility
    ) throws -> SecretRecord {
        try name.check()
        let length = value.count
        guard length <= Self.maximumValueLength else { throw SecretError.valueTooLong(length) }
        let (old, wasDamaged) = heals ? try replaceable(name, group, database) : (try row(name, group, database), false)
        return try store(value, name, group, try choose(old, wasDamaged), inPlaceOf: old?.record, database)
    }

    /// What takes the place of a row gets this accessibility: the one that is given, or else what the row says, after its value has opened
    /// under that. Else who can write to the database has the next value stored under another one.
    ///
    /// - Throws: `locked`: what cannot be read now is not replaced either. Without `given` also what `leavesNoValue`.
    func accessibility(
        _ given: SecretAccessibility?, replacing row: SecretRow
    ) throws(SecretError) -> SecretAccessibility {
        do throws(SecretError) { _ = try open(row) } catch {
            guard let given, error.leavesNoValue else { throw error }
            return given
        }
        return given ?? row.record.accessibility
    }

    /// The accessibility for a secret that comes from elsewhere and replaces a row: the stricter of its own and the row's. A backup from before never
    /// makes a secret weaker that a person has made stricter since. What no longer shows that may have been readable only while unlocked.
    ///
    /// - Parameters:
    ///   - row: nil: there is none.
    ///   - wasDamaged: whether there was one that made no sense.
    /// - Throws: `locked`: a row that cannot be read now is not replaced either.
    func accessibility(
        atLeast given: SecretAccessibility, replacing row: SecretRow?, wasDamaged: Bool
    ) throws(SecretError) -> SecretAccessibility {
        guard let row else { return wasDamaged ? given.whenUnlocked : given }
        do throws(SecretError) { return given.asStrict(as: try accessibility(nil, replacing: row)) } catch {
            guard error.leavesNoValue else { throw error }
            let original = try? accessibility(inPlaceOf: row, that: error)
            return given.asStrict(as: original ?? row.record.accessibility.whenUnlocked)
        }
    }

    /// The row of a name. One that makes no sense is removed.
    private func replaceable(
        _ name: SecretName, _ group: AccessGroup, _ database: Database
    ) throws -> (row: SecretRow?, wasDamaged: Bool) {
        do { return (try row(name, group, database), false) } catch let error as SecretError {
            guard case .damaged = error else { throw error }
            try remove(name, group, database)
            return (nil, true)
        }
    }

    private func remove(_ name: SecretName, _ group: AccessGroup, _ database: Database) throws {
        try database.cachedStatement(sql: "DELETE FROM secrets WHERE \(SecretSchema.isNamed)").execute(
            arguments: SecretColumns(name).arguments(in: group))
    }

    private func store(
        _ value: borrowing SecretBytes, _ name: SecretName, _ group: AccessGroup,
        _ accessibility: SecretAccessibility, inPlaceOf old: SecretRecord?, _ database: Database
    ) throws -> SecretRecord {
        let now = Int64(clamping: Clock.wallTime() / 1_000_000)
        let record = SecretRecord(
            id: try old?.id ?? Randomness.bytes(16), name: name, group: group, accessibility: accessibility,
            createdAt: old?.createdAt ?? now, modifiedAt: now)
        let row = try seal(value, record)
        if old == nil { try Self.insert(row, database) } else { try replace(row, database) }
        return record
    }

    /// Gives the row of an id, whose name stays, another value, wrap or accessibility. No index is touched.
    func replace(_ row: SecretRow, _ database: Database) throws {
        try database.cachedStatement(
            sql: """
                UPDATE secrets SET accessibility = ?, modified = ?, generation = ?, wrapped = ?, value = ? WHERE id = ?
                """
        ).execute(arguments: row.changeableArguments)
    }

    /// Puts a row into this database or another one with that table, in the place of one with the same id or name.
    static func insert(_ row: SecretRow, _ database: Database) throws {
        let marks = Array(repeating: "?", count: 17).joined(separator: ", ")
        try database.cachedStatement(
            sql: "INSERT OR REPLACE INTO secrets (\(SecretSchema.columns)) VALUES (\(marks))"
        ).execute(arguments: row.arguments)
    }
}

extension SecretStore {
    /// Stores an identity that is not there yet.
    ///
    /// - Throws: as ``add(_:value:accessibility:in:)``.
    @discardableResult
    public func add(
        _ identity: borrowing SecretIdentity, name: String, accessibility: SecretAccessibility = .whenUnlocked,
        in group: AccessGroup? = nil
    ) throws(SecretError) -> SecretRecord {
        try add(.identity(name: name), value: identity.joined(), accessibility: accessibility, in: group)
    }

    /// Stores an identity, whether there is one of that name already or not.
    ///
    /// - Throws: as ``set(_:value:accessibility:in:)``.
    @discardableResult
    public func set(
        _ identity: borrowing SecretIdentity, name: String, accessibility: SecretAccessibility? = nil,
        in group: AccessGroup? = nil
    ) throws(SecretError) -> SecretRecord {
        try set(.identity(name: name), value: identity.joined(), accessibility: accessibility, in: group)
    }
}
