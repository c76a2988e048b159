import Glibc
import ProtectionKeys
import SystemPackage
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
            ("add_key", "EDQUOT", 3),
        ])
    func aCallFails(_ name: String, _ error: String, _ count: Int) throws {
        var failures: [String: Int] = [:]
        for number in 1...count {
            let failed = try aCallFails(StormProcess.Call(name: name, number: number, error: error))
            failures[failed, default: 0] += 1
        }
        print("rotation, \(name) \(error): \(failures.sorted { $0.key < $1.key })")
        #expect(failures["nothing", default: 0] > 0, "the last call was reached")
        #expect(failures.count > 1, "some failures were met")
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
}
