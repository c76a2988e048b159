import DurableFiles
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// A backup whose passphrase was shown: its class keys open what another keybag wrapped. FORMAT.md §2.16.
package final class OpenedBackup: Sendable {
    /// What is stored of it.
    package let keybag: BackupKeybag
    private let key: BackupKey
    /// For messages.
    private let path: FilePath

    /// Checks the MAC, and the id of every class key that can be used.
    ///
    /// - Throws: `damaged`.
    package init(
        _ keybag: BackupKeybag, _ bytes: [UInt8], key: consuming BackupKey, at path: FilePath
    ) throws(DataProtectionError) {
        do throws(KeyError) {
            guard try BackupKeybag.isMACGood(bytes, under: key) else { throw .authenticationFailed }
            for entry in keybag.entries { try Self.check(entry, of: keybag.uuid, key) }
        } catch .authenticationFailed {
            throw .damaged(path, .backupKeybag, reason: "its authentication code is wrong", offset: nil)
        } catch .unwrapFailed {
            throw .damaged(path, .backupKeybag, reason: "a class key does not open, or is another one", offset: nil)
        } catch {
            throw .cryptography(error)
        }
        self.keybag = keybag
        self.path = path
        self.key = key
    }

    private static func check(
        _ entry: BackupEntry, of uuid: KeybagUUID, _ key: borrowing BackupKey
    ) throws(KeyError) {
        guard let name = entry.name(in: uuid) else { return }
        let id: [UInt8]
        if name.protectionClass == .completeUnlessOpen {
            id = try key.unwrapB(entry.wrapped, as: name).id()
        } else {
            id = try key.unwrap(entry.wrapped, as: name).id()
        }
        guard areEqualInConstantTime(id, entry.id) else { throw .unwrapFailed }
    }

    /// All entries, those of unknown kinds included, for a backup keybag that is made anew.
    package func entries(under other: borrowing BackupKey) throws(KeyError) -> [BackupEntry] {
        var entries: [BackupEntry] = []
        for entry in keybag.entries { entries.append(entry.with(try key.rewrap(entry.wrapped, under: other))) }
        return entries
    }

    /// Lends each class key A, C or D of that name, until `body` gives something; there is rarely more than one.
    ///
    /// - Returns: nil if `body` did not, or the backup has no such key.
    package func withClassKey<R: ~Copyable>(
        _ name: ClassKeyName, _ body: (borrowing ClassKey) throws(DataProtectionError) -> R?
    ) throws(DataProtectionError) -> R? {
        for entry in keybag.entries(of: name) {
            let classKey = try withKeys { () throws(KeyError) in try key.unwrap(entry.wrapped, as: name) }
            if let result = try body(classKey) { return result }
        }
        return nil
    }

    // MARK: files

    /// Opens the file key of a head, checks that it is the one that was meant, and every seal of the head.
    ///
    /// - Throws: `foreignKeybag`, `keyLost`, `damaged`.
    package func fileKey(of head: Head, path: FilePath) throws(DataProtectionError) -> FileKey {
        let name = head.wrap.classKey
        guard name.keybag == keybag.uuid else { throw .because(FileFailure.foreignKeybag(path, name.keybag)) }
        let entries = keybag.entries(of: name)
        guard !entries.isEmpty else {
            throw .because(KeybagFailure.keyLost(path, name.protectionClass, generation: name.generation))
        }
        for entry in entries {
            guard let opened = try fileKey(head.wrap.wrapped, entry, name) else { continue }
            try withFormat(path) { () throws(FormatError) in try head.checkCommitment(of: opened) }
            return opened
        }
        throw .damaged(path, .wrapRecord, reason: "the file key does not unwrap", offset: nil)
    }

    /// - Returns: nil if it is not the key that wrapped it, or what is wrapped was altered.
    private func fileKey(
        _ wrapped: WrappedKey, _ entry: BackupEntry, _ name: ClassKeyName
    ) throws(DataProtectionError) -> FileKey? {
        do throws(KeyError) {
            if name.protectionClass == .completeUnlessOpen {
                return try key.unwrapB(entry.wrapped, as: name).unwrap(wrapped)
            }
            return try key.unwrap(entry.wrapped, as: name).unwrap(wrapped)
        } catch .libraryFailed(let operation, let code) {
            throw .cryptography(.libraryFailed(operation: operation, code: code))
        } catch {
            return nil
        }
    }

    /// What can be said here about who made a file: a MAC under the other device's key cannot be checked. FORMAT.md §3.3.
    package func verdict(of head: Head) throws(DataProtectionError) -> OriginMark.Verdict {
        let origin = head.wrap.origin
        guard head.wrap.classKey.keybag == keybag.uuid, origin.key == .classC else { return .unverified }
        let message = OriginMark.message(
            file: head.prefix.fileID, classKey: head.wrap.classKey, verdict: origin.verdict,
            wrapped: head.wrap.wrapped, commitment: head.wrap.commitment)
        let name = ClassKeyName(
            keybag: keybag.uuid, protectionClass: .completeUntilFirstUserAuthentication, generation: origin.generation)
        let verdict = try withClassKey(name) { classKey throws(DataProtectionError) -> OriginMark.Verdict? in
            try withKeys { () throws(KeyError) in
                try classKey.originMACKey().isValid(origin.mac, for: message) ? origin.verdict : nil
            }
        }
        return verdict ?? .unverified
    }
}
