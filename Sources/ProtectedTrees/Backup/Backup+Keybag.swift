import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// The class keys of a backup: made, made anew, opened.
extension Backup {
    /// Stores all class keys of `keybag` under a passphrase.
    ///
    /// - Parameter passphrase: 1 to 1,024 bytes. It alone opens every copy, so that it should be long.
    /// - Throws: `locked` unless the keybag is unlocked; `passcodeUnusable`; `exists` if there is a backup keybag already.
    package func makeKeybag(
        of keybag: Keybag, passphrase: borrowing SecretBytes, iterations: Int = BackupKeybag.leastIterations
    ) throws(DataProtectionError) {
        guard try !hasKeybag() else { throw .exists(keybagPath) }
        try store(keybag, passphrase, iterations, keeping: nil)
    }

    /// Stores the class keys that the keybag has got since, after a rotation. Those that are there stay: earlier copies may
    /// need them.
    ///
    /// - Parameter passphrase: the one of the backup.
    /// - Throws: `wrongBackupPassphrase`; `locked` unless the keybag is unlocked; `foreignKeybag` if the backup is another's.
    package func renewKeybag(
        of keybag: Keybag, passphrase: borrowing SecretBytes, iterations: Int = BackupKeybag.leastIterations
    ) throws(DataProtectionError) {
        let old = try open(passphrase: passphrase)
        guard old.keybag.uuid == keybag.uuid else {
            throw .because(FileFailure.foreignKeybag(keybagPath, old.keybag.uuid))
        }
        try store(keybag, passphrase, iterations, keeping: old)
    }

    /// Opens the class keys, and checks all of them.
    ///
    /// - Throws: `wrongBackupPassphrase`, which an altered keybag can look like; `damaged`, `unsupported`, `backupNotFound`.
    package func open(passphrase: borrowing SecretBytes) throws(DataProtectionError) -> OpenedBackup {
        try Keybag.checkPasscode(passphrase)
        let (keybag, bytes) = try load()
        try DerivationFloor.check(keybag.iterations, of: keybagPath)
        defer { SecretBytes.scrubStack() }
        let key: BackupKey
        do throws(KeyError) {
            let kek = try BackupKEK(
                passphrase: passphrase, salt: keybag.salt, iterations: keybag.iterations, keybag: keybag.uuid)
            key = try kek.unwrap(keybag.wrapped)
        } catch .unwrapFailed {
            throw .because(TreeFailure.wrongBackupPassphrase(path))
        } catch {
            throw .cryptography(error)
        }
        return try OpenedBackup(keybag, bytes, key: key, at: keybagPath)
    }

    /// What the stored class keys say of themselves. Needs no key.
    ///
    /// - Throws: `backupNotFound`, `damaged`, `unsupported`.
    package func load() throws(DataProtectionError) -> (keybag: BackupKeybag, bytes: [UInt8]) {
        let file: LowerFile
        do throws(DataProtectionError) {
            file = try directory.file(Self.keybagName, flags: O_RDONLY, path: keybagPath)
        } catch {
            throw error.errno == .noSuchFileOrDirectory ? .because(TreeFailure.backupNotFound(path)) : error
        }
        let bytes = try file.bytes(at: 0, count: BackupKeybag.maximumLength + 1)
        let keybag = try withFormat(keybagPath) { () throws(FormatError) in try BackupKeybag(decoding: bytes) }
        return (keybag, bytes)
    }

    package var keybagPath: FilePath { path.appending(Self.keybagName) }

    private func store(
        _ keybag: Keybag, _ passphrase: borrowing SecretBytes, _ iterations: Int, keeping old: OpenedBackup?
    ) throws(DataProtectionError) {
        try Keybag.checkPasscode(passphrase)
        guard try keybag.state() == .unlocked else { throw .locked(keybag, keybag.directory, .complete, .backUp) }
        defer { SecretBytes.scrubStack() }
        let key = try withKeys { () throws(KeyError) in try BackupKey.random(for: keybag.uuid) }
        var entries = try withKeys { () throws(KeyError) in try old?.entries(under: key) ?? [] }
        for entry in try keybag.current().usedEntries where old?.keybag.holds(entry) != true {
            entries.append(BackupEntry(entry, wrapped: try entry.wrapped(of: keybag, under: key)))
        }
        guard entries.count <= BackupKeybag.maximumEntryCount else {
            throw .because(KeybagFailure.tooManyGenerations(keybagPath))
        }
        let bytes = try withKeys { () throws(KeyError) in
            let salt = try Randomness.bytes(32)
            let kek = try BackupKEK(passphrase: passphrase, salt: salt, iterations: iterations, keybag: keybag.uuid)
            return try BackupKeybag(
                uuid: keybag.uuid, made: Clock.now(), iterations: iterations, salt: salt, wrapped: try kek.wrap(key),
                entries: entries
            ).encoded(under: key)
        }
        try AtomicReplace.write(
            bytes, to: DirectoryEntry(Self.keybagName, in: directory), through: Self.newKeybagName)
    }
}

extension ClassKeyEntry {
    /// Wraps the class key for a backup, after its id was checked.
    ///
    /// - Throws: `locked` if it is not in the ring, or what is there is not this key.
    fileprivate func wrapped(
        of keybag: Keybag, under key: borrowing BackupKey
    ) throws(DataProtectionError) -> WrappedKey {
        guard let name = try keybag.current().name(of: self) else {
            throw .because(KeybagFailure.keybagDamaged(keybag.directory, reason: "a class key has no name"))
        }
        let wrapped: WrappedKey?
        if name.protectionClass == .completeUnlessOpen {
            wrapped = try keybag.withClassB(name) { classKey throws(DataProtectionError) in
                do throws(KeyError) { return try key.wrap(classKey) } catch { throw .cryptography(error) }
            }
        } else {
            wrapped = try keybag.withClassKey(name) { classKey throws(DataProtectionError) in
                do throws(KeyError) { return try key.wrap(classKey) } catch { throw .cryptography(error) }
            }
        }
        guard let wrapped else { throw .locked(keybag, keybag.directory, .complete, .backUp) }
        return wrapped
    }
}
