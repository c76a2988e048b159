import Testing

@testable import DataProtection

@Suite struct RemedyTests {
    @Test func lockedHelpsAnUnlock() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1])
        try bed.enter(.locked)
        let error = #expect(throws: DataProtectionError.self) { try ProtectedFile.open(path, keybag: bed.keybag) }
        #expect(error?.remedy == .unlock)
        try bed.enter(.unlocked)
        #expect(try bed.read(path) == [1])
    }

    @Test func aSecondWriterMayTryAgain() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1])
        let first = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try first.write([2], at: 0)
        let second = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        let error = #expect(throws: DataProtectionError.self) { try second.write([3], at: 0) }
        #expect(error?.remedy == .tryAgain)
        try first.close()
        try second.write([3], at: 0)
        try second.close()
        #expect(try bed.read(path) == [3])
    }

    @Test func damageHasNone() {
        #expect(DataProtectionError.damaged("f", .chunk, reason: "", offset: 0).remedy == nil)
        #expect(
            DataProtectionError.because(KeybagFailure.throttled(keybag: "k", retryAfter: .seconds(60))).remedy
                == .wait(.seconds(60)))
    }
}
