import Foundation
import KeyQuota
import ProtectionKeys
import SystemPackage
import TestScratch
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// A keybag of a test's own, with a store of secrets.
final class SecretsBed: Sendable {
    static let passcode = "a passcode for tests"
    static let appID = "org.example.test"

    let keybag: Keybag
    let store: SecretStore
    let root: FilePath

    init(_ state: ProtectionState = .unlocked) throws {
        KeyQuota.waitForRoom()
        _ = isolatedHome
        root = try scratch("protectfs-secrets")
        keybag = try Keybag.create(
            at: root.appending("keybag"), passcode: secret(Self.passcode), iterations: 1_000,
            deviceKey: root.appending("device-key"))
        store = try SecretStore(appID: Self.appID, keybag: keybag)
        try enter(state)
    }

    deinit {
        try? keybag.ring.evict(everything: true)
        try? FileManager.default.removeItem(atPath: root.string)
    }

    func enter(_ state: ProtectionState) throws {
        try keybag.ring.evict(everything: true)
        if state == .beforeFirstUnlock { return }
        try keybag.unlock(passcode: secret(Self.passcode))
        if state == .locked { try keybag.lock() }
    }

    /// The store as another process would open it.
    func another(_ appID: String = SecretsBed.appID) throws -> SecretStore {
        try SecretStore(appID: appID, keybag: Keybag(at: keybag.directory))
    }

    /// New class keys, of the same passcode.
    @discardableResult
    func rotate() throws -> UInt32 {
        try keybag.open(passcode: secret(Self.passcode)).rotate(passcode: secret(Self.passcode), iterations: 1_000)
    }

    /// All bytes of the files of the store.
    func storedBytes() throws -> [String: [UInt8]] {
        let directory = keybag.directory.appending(SecretsKeys.directoryName).string
        var files: [String: [UInt8]] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
            files[name] = Array(try Data(contentsOf: URL(fileURLWithPath: directory + "/" + name)))
        }
        return files
    }
}

func secret(_ text: String) -> SecretBytes { secret(Array(text.utf8)) }
func secret(_ bytes: [UInt8]) -> SecretBytes { SecretBytes(byteCount: bytes.count) { $0.copyBytes(from: bytes) } }

extension SecretStore {
    /// For comparisons: a test's secrets are none.
    func text(_ name: SecretName, in group: AccessGroup? = nil) throws -> String {
        try value(of: name, in: group).withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }
}

extension SecretName {
    static func account(_ account: String) -> SecretName { .genericPassword(service: "service", account: account) }
}
