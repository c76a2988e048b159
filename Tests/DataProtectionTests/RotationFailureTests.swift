import Glibc
import KeyQuota
import ProtectionKeys
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// A full disk, a quota, a disk that fails, at one call after the other of a rotation with all that belongs to it.
@Suite("A rotation whose calls fail")
struct RotationFailureTests {
    private static let text = [UInt8](repeating: 11, count: 5000)

    /// `number` goes beyond the last one, which is a rotation without a failure.
    @Test(
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"),
        arguments: [
            ("pwrite64", "ENOSPC", 24), ("fdatasync", "EIO", 20), ("fsync", "EIO", 9), ("rename", "EDQUOT", 5),
            // Counted by thread, and each change of the ring has its own.
            ("add_key", "EDQUOT", 6),
        ])
    func aCallFails(_ name: String, _ error: String, _ count: Int) throws {
        var failures: [String: Int] = [:]
        for number in Effort.slice(of: 1..<count) + [count] {
            let failed = try aCallFails(StormProcess.Call(name: name, number: number, error: error))
            failures[failed, default: 0] += 1
        }
        print("rotation, \(name) \(error): \(failures.sorted { $0.key < $1.key })")
        #expect(failures["nothing", default: 0] > 0, "the last call was reached")
        #expect(failures.count > 1 || Effort.level < 7, "some failures were met")
    }

    /// - Returns: at which step it failed.
    private func aCallFails(_ call: StormProcess.Call) throws -> String {
        let bed = try FileTestBed()
        let paths = try ProtectionClass.allCases.map { try bed.make("\($0)", $0, Self.text) }
        try bed.keybag.changePasscode(from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: 1000)
        let worker = try StormProcess(bed, "rotate-once", seed: 0, first: 0, paths.map(\.string), until: call)
        let answer = try #require(try worker.line())
        let comment: Comment = "\(call): \(answer)"
        let step = String(answer.split(separator: " ")[0])
        for path in paths { #expect(try bed.read(path) == Self.text, comment) }
        // Whatever failed: keyring and keybag have the same keys, and nobody takes this keybag for an older one.
        let generations = try bed.bag.newestGenerations()
        #expect(Set(generations).count == 1, "\(comment): \(generations)")
        let health = KeybagHealth(of: bed.keybag.directory)
        #expect(health.newerGeneration == nil && health.interruptedRotation == nil, comment)
        #expect(bed.keybag.ring.unfinishedRotation == nil, comment)

        // As a boot would leave it.
        try bed.keybag.evictEverything()
        let isNew = step != "rotate"
        if !answer.contains("keybagUnconfirmed") {
            #expect(throws: Never.self, comment) { try bed.bag.unlock("passcode \(isNew ? 1 : 0)") }
        }
        let passcode = try ["passcode 1", "passcode 0"].first { try bed.bag.opens(with: $0) }
        try #require(passcode != nil, comment)
        for path in paths { #expect(try bed.read(path) == Self.text, comment) }

        // What is left is done by another pass.
        if passcode == "passcode 0" {
            try bed.keybag.open(passcode: secret("passcode 0")).rotate(passcode: secret("passcode 1"), iterations: 1000)
        }
        for path in paths { try bed.keybag.rewrap(fileAt: path) }
        try bed.bag.forgetRetired(passcode: "passcode 1")
        for path in paths {
            #expect(try StoredWraps(path).generations.count == 1, comment)
            #expect(try bed.read(path) == Self.text, comment)
        }
        #expect(try bed.bag.file("keybag.0").contents() == bed.bag.file("keybag.1").contents(), comment)
        return step
    }

    #if compiler(>=6.3)
        @Test(
            "With any room left in the key quota, a rotation succeeds, or leaves keyring and keybag as they were",
            .enabled(if: geteuid() == 0, "other tests use this uid's quota; root can become another one"))
        func quota() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bag = try TestKeybag()
                var (failures, rotations) = (0, 0)
                for room in stride(from: 0, through: 2000, by: 200) {
                    KeyQuota.waitForRoom()
                    try bag.unlock()
                    let before = try bag.newestGenerations()
                    let padding = KeyQuota.fill(leavingAbout: room)
                    do {
                        try bag.rotate()
                        rotations += 1
                    } catch DataProtectionError.because(KeybagFailure.keyringUnavailable(.diskQuotaExceeded)) {
                        failures += 1
                        #expect(try bag.newestGenerations() == before)
                    }
                    KeyQuota.free(padding)
                    #expect(try bag.keybag.state() == .unlocked)
                    #expect(try Set(bag.newestGenerations()).count == 1)
                    let health = KeybagHealth(of: bag.directory)
                    #expect(health.newerGeneration == nil && health.interruptedRotation == nil)
                }
                #expect(failures > 0 && rotations > 0, "\(failures) failed, \(rotations) did not")
                try bag.keybag.evictEverything()
                try home.remove()
            }
        }
    #endif

    @Test(
        "Killed between keyring and keybag, it is known for an interrupted rotation until the next unlock",
        .enabled(if: StormProcess.canKillAtCalls, "there is no strace(1) here that may trace"), arguments: [1, 2])
    func killed(number: Int) throws {
        let bed = try FileTestBed()
        try bed.keybag.changePasscode(from: secret(TestKeybag.passcode), to: secret("passcode 0"), iterations: 1000)
        // The keyring has the new keys at the first one already. At the second one the first copy of the keybag has them too.
        let call = StormProcess.Call(name: "rename", number: number, path: bed.bag.file("keybag.new"))
        let file = try bed.make("file", .complete, Self.text)
        let worker = try StormProcess(bed, "rotate-once", seed: 0, first: 0, [file.string], until: call)
        let answer = try worker.line()
        try #require(answer == nil, "it was not killed")
        let health = KeybagHealth(of: bed.keybag.directory)
        #expect(health.newerGeneration == nil)
        #expect(health.interruptedRotation == (number == 1 ? 2 : nil))
        try bed.keybag.lock()
        try bed.bag.unlock("passcode \(number - 1)")
        #expect(try Set(bed.bag.newestGenerations()).count == 1)
        #expect(KeybagHealth(of: bed.keybag.directory).interruptedRotation == nil)
        #expect(bed.keybag.ring.unfinishedRotation == nil)
        #expect(try bed.read(file) == Self.text)
    }
}
