import DurableFiles
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys

/// Which class keys of secrets a backup has. What `protectfs backup` tells `protectfs-secrets`: class (1) and generation (4) of each.
package struct SecretKeyNames: Sendable {
    private let names: Set<[UInt8]>

    package init(_ names: some Sequence<ClassKeyName>) {
        self.names = Set(names.filter { $0.kind == .secrets }.map(\.classAndGeneration))
    }

    /// - Returns: nil for what is no list of names.
    package init?(encoded: [UInt8]) {
        guard encoded.count % 5 == 0 else { return nil }
        names = Set(stride(from: 0, to: encoded.count, by: 5).map { Array(encoded[$0..<$0 + 5]) })
    }

    package var encoded: [UInt8] { names.sorted { $0.lexicographicallyPrecedes($1) }.flatMap { $0 } }

    package func contains(_ name: ClassKeyName) -> Bool { names.contains(name.classAndGeneration) }
}

/// The class keys of secrets of a backup. What `protectfs restore` gives `protectfs-secrets`: the UUID of the keybag (16), then class and
/// generation (5) and key (32) of each.
package struct SecretKeyList: ~Copyable, Sendable {
    /// The keybag that they are of.
    package let keybag: KeybagUUID
    private let entries: SecretBytes

    private static let entryLength = 5 + 32

    /// Reads what ``OpenedBackup/secretsKeys()`` has encoded.
    ///
    /// - Returns: nil for what is no such list.
    package init?(encoded: borrowing SecretBytes) {
        let count = encoded.count
        guard count >= 16, (count - 16) % Self.entryLength == 0 else { return nil }
        let uuid = encoded.withUnsafeBytes { try? KeybagUUID(bytes: $0.prefix(16)) }
        guard let uuid else { return nil }
        keybag = uuid
        entries = encoded.slice(16..<count)
    }

    /// Whether there is a key of that name.
    package borrowing func contains(_ name: ClassKeyName) -> Bool {
        let wanted = name.classAndGeneration
        return entries.withUnsafeBytes { entries in
            stride(from: 0, to: entries.count, by: Self.entryLength).contains { start in
                entries[start..<start + 5].elementsEqual(wanted)
            }
        }
    }

    /// Lends each key of that name, until `body` gives something.
    package borrowing func withKey<R: ~Copyable>(
        _ name: ClassKeyName, _ body: (borrowing ClassKey) throws(KeyError) -> R?
    ) throws(KeyError) -> R? {
        let wanted = name.classAndGeneration
        for start in stride(from: 0, to: entries.count, by: Self.entryLength) {
            let isWanted = entries.withUnsafeBytes { $0[start..<start + 5].elementsEqual(wanted) }
            guard isWanted else { continue }
            let key = try ClassKey(name: name, secret: entries.slice(start + 5..<start + Self.entryLength))
            if let result = try body(key) { return result }
        }
        return nil
    }
}

extension SecretKeyList {
    /// One entry, as it is encoded.
    package static func entry(_ key: borrowing ClassKey) -> SecretBytes {
        let name = key.name.classAndGeneration
        return key.withUnsafeBytes { key in
            SecretBytes(byteCount: entryLength) { slot in
                slot[..<5].copyBytes(from: name)
                slot[5...].copyBytes(from: key)
            }
        }
    }
}

extension Backup {
    /// The class keys of secrets that a keybag has and this backup too. Needs no key.
    package func secretsKeyNames(of keybag: Keybag) throws(DataProtectionError) -> SecretKeyNames {
        let stored = try load().keybag
        let copy = try keybag.current()
        return SecretKeyNames(
            copy.entries(of: .secrets).filter { stored.holds($0) }.compactMap { copy.name(of: $0) })
    }
}

extension OpenedBackup {
    /// All class keys of secrets, as ``SecretKeyList`` reads them.
    package func secretsKeys() throws(DataProtectionError) -> SecretBytes {
        let names = Set(keybag.entries.compactMap { $0.name(in: keybag.uuid) }.filter { $0.kind == .secrets })
        var list = SecretBytes(copyOf: keybag.uuid.bytes)
        for name in names {
            // Each is taken, and none ends the search.
            _ = try withClassKey(name) { key throws(DataProtectionError) -> Bool? in
                list = SecretBytes(joining: list, SecretKeyList.entry(key))
                return nil
            }
        }
        return list
    }
}

extension SecretBytes {
    fileprivate init(copyOf bytes: [UInt8]) { self.init(byteCount: bytes.count) { $0.copyBytes(from: bytes) } }

    fileprivate init(joining first: borrowing SecretBytes, _ second: borrowing SecretBytes) {
        let end = first.count
        self.init(byteCount: end + second.count) { slot in
            first.withUnsafeBytes { slot[..<end].copyBytes(from: $0) }
            second.withUnsafeBytes { slot[end...].copyBytes(from: $0) }
        }
    }
}
