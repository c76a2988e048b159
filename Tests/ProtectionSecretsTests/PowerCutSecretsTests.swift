import Foundation
import KeyQuota
import PowerCutDisk
import ProtectionKeys
import SystemPackage
import TestScratch
import Testing

@testable import DataProtection
@testable import ProtectionSecrets

/// The power fails while secrets are written: what was acknowledged is there, or something newer.
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "\(PowerCutDisk.whyNot ?? "")"))
struct PowerCutSecretsTests {
    @Test func updates() throws {
        KeyQuota.waitForRoom()
        _ = isolatedHome
        let disk = try PowerCutDisk(mebibytes: 48)
        let root = try scratch("protectfs-secrets", in: FilePath(disk.mountPoint))
        let keybag = try Keybag.create(
            at: root.appending("keybag"), passcode: secret(SecretsBed.passcode), iterations: 1_000,
            deviceKey: root.appending("device-key"))
        defer { try? keybag.ring.evict(everything: true) }
        try keybag.unlock(passcode: secret(SecretsBed.passcode))
        try disk.flush()
        var marks = [(step: -1, position: try disk.position())]
        let worker = try SecretsWorker.start(keybag, ["change", "0"])
        for number in 0..<60 {
            #expect(String(decoding: worker.next(), as: UTF8.self) == "\(number)\n")
            marks.append((number, try disk.position()))
            if number < 59 { try worker.step() }
        }
        worker.kill()
        try keybag.ring.evict(everything: true)
        try disk.unplug()
        try disk.afterCuts(of: "secrets", marks: marks) { allowed, text in
            let comment = Comment(rawValue: text)
            let keybag = try Keybag(at: keybag.directory)
            try keybag.unlock(passcode: secret(SecretsBed.passcode))
            let store = try SecretStore(appID: SecretsBed.appID, keybag: keybag)
            let all = try store.find()
            #expect(all.damaged == 0, comment)
            let found = Set(try all.records.map { try store.text($0.name) })
            #expect(allowed.contains { found == Self.values(after: $0) }, comment)
            try store.set(.account("after"), value: secret("1"), accessibility: .whenUnlocked)
            #expect(try store.text(.account("after")) == "1", comment)
            try keybag.ring.evict(everything: true)
        }
    }

    /// What is there when the worker has made so many steps: numbers, each of which says whose it is.
    private static func values(after step: Int) -> Set<String> {
        var slots: [Int: Int] = [:]
        for number in 0..<step + 1 { slots[number % 10] = number % 3 == 2 ? nil : number }
        return Set(slots.values.map { "\($0)" })
    }
}
