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
@Suite(.enabled(if: PowerCutDisk.whyNot == nil, "power cuts take root, /dev/fuse and loop devices"))
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
        sync()
        var marks = [(last: -1, position: try disk.position())]
        let worker = try SecretsWorker.start(keybag, ["update", "0"])
        var text = ""
        while marks.count < 60, case let piece = worker.next(), !piece.isEmpty {
            let position = try disk.position()
            text += String(decoding: piece, as: UTF8.self)
            for line in text.split(separator: "\n") where text.contains(line + "\n") {
                marks.append((try #require(Int(line), "\(line)"), position))
            }
            text = text.last == "\n" ? "" : String(text.split(separator: "\n").last!)
        }
        worker.kill()
        try keybag.ring.evict(everything: true)
        try disk.unplug()
        let cuts = try disk.cuts(of: "secrets", from: marks[0].position)
        for cut in cuts {
            let last = marks.last { $0.position <= cut.position }!.last
            try disk.after(cut) {
                let keybag = try Keybag(at: keybag.directory)
                try keybag.unlock(passcode: secret(SecretsBed.passcode))
                let store = try SecretStore(appID: SecretsBed.appID, keybag: keybag)
                let found = try store.find()
                #expect(found.damaged == 0)
                for slot in 0..<10 where slot <= last {
                    let acknowledged = last - (last - slot) % 10
                    let text = try store.text(.genericPassword(service: "storm", account: "\(slot)"))
                    let number = try #require(Int(text), "\(cut), \(text)")
                    #expect(number >= acknowledged && number % 10 == slot, "\(cut), \(last) was acknowledged")
                }
                try store.set(.account("after"), value: secret("1"), accessibility: .whenUnlocked)
                #expect(try store.text(.account("after")) == "1")
                try keybag.ring.evict(everything: true)
            }
        }
        print("power cuts, secrets: \(cuts.count) cuts, \(marks.count - 1) acknowledged steps before them")
    }
}
