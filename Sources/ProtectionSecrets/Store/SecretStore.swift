public import DataProtection
import GRDB
public import ProtectionKeys
import SharedDatabase

/// A user's secrets: passwords, keys and identities that open only in the lock states that their accessibility allows.
///
///     let store = try SecretStore(appID: "org.example.mail")
///     try store.set(.genericPassword(service: "imap", account: "kim"), value: password)
///     let password = try store.value(of: .genericPassword(service: "imap", account: "kim"))
///
/// One database for a keybag, `secrets/secrets.sqlite` in its directory, for any number of processes at once. A change lasts when
/// it returns. Each value is sealed under a key of its own, which a class key of secrets wraps, and is bound to all that is stored of
/// it in clear; nothing that opens a value is kept between calls. FORMAT.md §2.15.
public final class SecretStore: Sendable {
    /// The keybag whose class keys are used.
    public let keybag: Keybag
    /// Where secrets go, and are looked for, when no group is named.
    public let privateGroup: AccessGroup
    /// The database.
    public let path: FilePath

    /// The longest value, in bytes.
    public static let maximumValueLength = 65_536

    let bell: Bell
    private let writing: DatabaseQueue
    /// Its own connection: who reads does not wait for a flush.
    private let reading: DatabaseQueue
    private let watch: SchemaWatch

    /// Opens the user's store, or begins one.
    ///
    /// - Parameter appID: names the program, as `org.example.mail`. It keeps the secrets of programs apart, and keeps none of them out.
    /// - Throws: `invalid`, `storeDamaged`, `storeNewer`, `store`, `protection`.
    public convenience init(appID: String) throws(SecretError) {
        let keybag: Keybag
        do throws(DataProtectionError) { keybag = try .user } catch { throw .protection(error) }
        try self.init(appID: appID, keybag: keybag)
    }

    /// The same of another keybag.
    public convenience init(appID: String, keybag: Keybag) throws(SecretError) {
        try self.init(appID: appID, keybag: keybag, droppingPlanted: nil)
    }

    /// The same, to look after the store.
    ///
    /// - Parameter dropped: triggers and views that somebody has planted are dropped, and named to it: `trigger NAME`.
    package init(
        appID: String, keybag: Keybag, droppingPlanted dropped: (([String]) -> Void)?
    ) throws(SecretError) {
        self.keybag = keybag
        privateGroup = try .private(of: appID)
        let directory = keybag.directory.appending(SecretsKeys.directoryName)
        let path = directory.appending("secrets.sqlite")
        do throws(DataProtectionError) {
            try OwnDirectory.makeLast(directory)
            try StoreMachine.claim(directory)
        } catch {
            throw .protection(error)
        }
        do throws(SharedDatabaseError) {
            writing = try SharedDatabase.open(
                path, label: "protectfs.secrets", SecretSchema.definitions, droppingPlanted: dropped)
            reading = try SharedDatabase.openToRead(path, label: "protectfs.secrets.reading")
        } catch {
            throw SecretError(error)
        }
        self.path = path
        watch = SchemaWatch(SecretSchema.definitions, path)
        bell = Bell(directory: directory)
    }

    // MARK: the database

    /// Reads with one statement: no transaction is needed for that, and none is begun.
    func read<R>(_ body: (Database) throws -> R) throws(SecretError) -> R {
        try SharedDatabase.translating(path, SecretError.init) { try reading.unsafeRead(body) }
    }

    /// Reads behind every change that has begun, here or in another process: none of them commits a row afterwards that was sealed before.
    func readBehindWriters<R>(_ body: (Database) throws -> R) throws(SecretError) -> R {
        try SharedDatabase.translating(path, SecretError.init) { try changing(body) }
    }

    /// Changes in one transaction. When this returns it lasts, and who listens is told; when it throws nothing has changed.
    func write<R>(_ body: (Database) throws -> R) throws(SecretError) -> R {
        let result = try SharedDatabase.translating(path, SecretError.init) { try changing(body) }
        bell.ring()
        return result
    }

    /// A trigger that was planted after this was opened does not see what is stored.
    private func changing<R>(_ body: (Database) throws -> R) throws -> R {
        try writing.write { database in
            try watch.check(database)
            return try body(database)
        }
    }

    /// The row of a name; nil if there is none.
    ///
    /// - Throws: `damaged` if it makes no sense.
    func row(
        _ name: SecretName, _ group: AccessGroup, _ database: Database
    ) throws -> SecretRow? {
        let statement = try database.cachedStatement(sql: SecretSchema.selectNamed)
        // One row, read where SQLite has it: a copy of it costs as much as finding it.
        let rows = try Row.fetchCursor(statement, arguments: SecretColumns(name).arguments(in: group))
        guard let row = try rows.next() else { return nil }
        guard let decoded = SecretRow(row) else {
            throw SecretError.damaged(name, path, reason: "a column holds what none of ours does")
        }
        return decoded
    }

    // MARK: reading

    /// The value of a secret.
    ///
    /// - Parameter group: nil: the private group, and no other.
    /// - Throws: `notFound`, `locked`, `damaged`, `otherDevice`, `otherKey`, `keyLost`; `store`, `storeDamaged`, `protection`.
    public func value(of name: SecretName, in group: AccessGroup? = nil) throws(SecretError) -> SecretBytes {
        let group = group ?? privateGroup
        guard let found = try read({ try row(name, group, $0) }) else { throw .notFound(name, group) }
        do throws(SecretError) { return try open(found) } catch .keyLost(let secret, let generation) {
            // Somebody rewraps, and forgets the old keys: the row that was read may be another one by now.
            guard let row = try read({ try row(name, group, $0) }), row.generation != found.generation else {
                throw .keyLost(secret, generation: generation)
            }
            return try open(row)
        }
    }

    /// The certificate and the private key of an identity.
    ///
    /// - Throws: as ``value(of:in:)``.
    public func identity(_ name: String, in group: AccessGroup? = nil) throws(SecretError) -> SecretIdentity {
        let secret = SecretName.identity(name: name)
        let joined = try value(of: secret, in: group)
        do throws(SecretError) { return try SecretIdentity(joined: joined) } catch {
            throw .damaged(secret, path, reason: "its value is no identity")
        }
    }

    /// What is stored of a secret besides its value; nil if there is none of that name. In every lock state.
    ///
    /// - Throws: `damaged` if it makes no sense; `store`, `storeDamaged`.
    public func record(of name: SecretName, in group: AccessGroup? = nil) throws(SecretError) -> SecretRecord? {
        try read { try row(name, group ?? privateGroup, $0) }?.record
    }

    // MARK: sealing and opening

    func open(_ row: SecretRow) throws(SecretError) -> SecretBytes { try open(row, with: itemKey(of: row)) }

    func open(_ row: SecretRow, with item: borrowing ItemKey) throws(SecretError) -> SecretBytes {
        // What unwrapped the item key may have left pieces of it there: compilers keep them in registers, and spill these.
        defer { SecretBytes.scrubStack() }
        do throws(KeyError) { return try item.open(row.value, boundTo: row.record.associatedData(keybag.uuid)) } catch {
            throw .damaged(row.record.name, path, reason: "its value does not open")
        }
    }

    /// What opens a row's value.
    func itemKey(of row: SecretRow) throws(SecretError) -> ItemKey {
        try withClassKey(row.generation, row.record.name, row.record.accessibility, .read) {
            key, device throws(KeyError) in
            try device.unwrap(row.wrapped, key)
        }
    }

    /// A new row of a value.
    func seal(_ value: borrowing SecretBytes, _ record: SecretRecord) throws(SecretError) -> SecretRow {
        let generation = try activeGeneration(record)
        let associated = record.associatedData(keybag.uuid)
        var wrapped: WrappedKey?
        var sealed: [UInt8] = []
        defer { SecretBytes.scrubStack() }
        try withClassKey(generation, record.name, record.accessibility, .write) { key, device throws(KeyError) in
            let item = try ItemKey.random()
            wrapped = try device.wrap(item, key)
            sealed = try item.seal(value, boundTo: associated)
        }
        return SecretRow(record: record, generation: generation, wrapped: wrapped!, value: sealed)
    }

    /// The generation of class keys that wraps now.
    func activeGeneration(_ record: SecretRecord) throws(SecretError) -> UInt32 {
        let name: ClassKeyName?
        do throws(DataProtectionError) {
            name = try SecretsKeys(of: keybag).activeName(record.accessibility.protectionClass)
            try keybag.refuseOlder(keybag.current())
        } catch {
            throw SecretError(error, record.name, record.accessibility)
        }
        guard let name else { throw .needsUnlock(keybag.directory) }
        return name.generation
    }

    /// Lends the class key of an accessibility, and the device key where that is needed.
    func withClassKey<R: ~Copyable>(
        _ generation: UInt32, _ secret: SecretName, _ accessibility: SecretAccessibility,
        _ operation: AttemptedOperation,
        _ body: (borrowing ClassKey, borrowing DeviceBinding) throws(KeyError) -> R
    ) throws(SecretError) -> R {
        let name = accessibility.classKey(of: keybag.uuid, generation: generation)
        do throws(DataProtectionError) {
            let device = try DeviceBinding(accessibility, keybag)
            return try SecretsKeys(of: keybag).withKey(name, path, operation) { key throws(DataProtectionError) in
                do throws(KeyError) { return try body(key, device) } catch { throw .cryptography(error) }
            }
        } catch .cryptography(.unwrapFailed), .cryptography(.authenticationFailed) {
            if accessibility.isThisDeviceOnly { throw .otherDevice(secret) }
            throw .otherKey(secret, generation: generation)
        } catch {
            throw SecretError(error, secret, accessibility)
        }
    }
}
