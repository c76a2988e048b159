import DataProtection
import Glibc
import ProtectionKeys

/// The key of the list's values, in a protected file of its own: `downloads/key`, class C. FORMAT.md §2.14.
///
/// So it is there while locked and not before the first unlock; and a rotation of the class keys reaches it as it does every
/// protected file. A file of class B is refused: anybody who has read the keybag can make one, and forge a list under its key.
struct StoreKeyFile: Sendable {
    /// Where it was read into.
    final class Loaded: Sendable {
        let key: StoreKey
        init(_ key: consuming StoreKey) { self.key = key }
    }

    let keybag: Keybag
    var path: FilePath { keybag.directory.appending(DownloadsDirectory.name).appending(DownloadsDirectory.keyName) }

    /// Reads the key, or makes one.
    ///
    /// - Parameter isEmpty: whether nothing is sealed under an earlier one.
    /// - Throws: `beforeFirstUnlock`, `storeKeyLost`, `storeDamaged`.
    func load(isEmpty: () throws(DownloadError) -> Bool) throws(DownloadError) -> Loaded {
        if let loaded = try read() { return loaded }
        guard try isEmpty() else { throw .storeKeyLost(path) }
        try make()
        // By the process that was first.
        guard let loaded = try read() else { throw .storeKeyLost(path) }
        return loaded
    }

    private func make() throws(DownloadError) {
        do throws(DataProtectionError) {
            let writer = try ProtectedFileWriter(
                path, as: .completeUntilFirstUserAuthentication, keybag: keybag, replacing: false)
            let secret: SecretBytes
            do throws(KeyError) { secret = try SecretBytes(randomByteCount: StoreKey.length) } catch {
                throw .cryptography(error)
            }
            try secret.withUnsafeBytes { bytes throws(DataProtectionError) in try writer.append(bytes) }
            try writer.finish()
            // Its directory keeps others out already.
            _ = path.withPlatformString { chmod($0, 0o600) }
        } catch .exists {
        } catch .because(KeybagFailure.locked) {
            throw .beforeFirstUnlock(keybag.directory)
        } catch {
            throw .protection(error)
        }
    }

    /// Nil if there is none.
    private func read() throws(DownloadError) -> Loaded? {
        do throws(DataProtectionError) {
            let file = try ProtectedFile.open(path, keybag: keybag)
            var count = 0
            let secret = try SecretBytes(byteCount: StoreKey.length) { slot throws(DataProtectionError) in
                count = try file.read(into: slot, at: 0)
            }
            guard count == StoreKey.length, try file.size() == Int64(count) else {
                throw .damaged(path, .chunk, reason: "a key has \(StoreKey.length) bytes", offset: nil)
            }
            let protectionClass = try file.openedClass()
            guard [.complete, .completeUntilFirstUserAuthentication].contains(protectionClass) else {
                throw .damaged(path, .wrapRecord, reason: "it has a class that others can make files of", offset: nil)
            }
            try file.close()
            do throws(KeyError) { return Loaded(try StoreKey(secret: secret)) } catch { throw .cryptography(error) }
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return nil
        } catch .because(KeybagFailure.locked) {
            throw .beforeFirstUnlock(keybag.directory)
        } catch .damaged(let path, _, let reason, _) {
            throw .storeDamaged(path, reason: reason)
        } catch {
            throw .protection(error)
        }
    }
}
