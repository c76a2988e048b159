import Conformance
import DataProtection
import ProtectionSecrets

/// The library's secrets, for the library's cells.
final class StoredItems: ItemStore {
    private let store: SecretStore

    init(_ keybag: Keybag) throws { store = try SecretStore(appID: "conformance", keybag: keybag) }

    private func name(_ account: String) -> SecretName { .genericPassword(service: "conformance", account: account) }
    private func secret(_ bytes: [UInt8]) -> SecretBytes {
        SecretBytes(byteCount: bytes.count) { $0.copyBytes(from: bytes) }
    }

    func addItem(_ account: String, as protectionClass: ProtectionClass, _ bytes: [UInt8]) throws {
        try store.add(
            name(account), value: secret(bytes),
            accessibility: protectionClass == .complete ? .whenUnlocked : .afterFirstUnlock)
    }

    func readItem(_ account: String) throws -> [UInt8] {
        try store.value(of: name(account)).withUnsafeBytes { Array($0) }
    }

    func updateItem(_ account: String, _ bytes: [UInt8]) throws {
        try store.update(name(account), value: secret(bytes))
    }

    func isLocked(_ error: any Error, _ moment: Moment, _ classes: Set<ProtectionClass>) -> Bool {
        guard case .locked(_, let accessibility, moment.state, let since?)? = error as? SecretError else {
            return false
        }
        return classes.contains(accessibility.protectionClass) && since.timeIntervalSince1970 > 1_500_000_000
    }
}
