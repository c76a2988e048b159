import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// Who could have made a file: class B's public key alone is enough to make one that opens.
@Suite struct OriginTests {
    private func origin(_ bed: FileTestBed, _ path: FilePath) throws -> OriginMark.Verdict {
        try ProtectedFile.open(path, keybag: bed.keybag).origin()
    }

    @Test(arguments: ProtectionClass.allCases)
    func madeHere(_ protectionClass: ProtectionClass) throws {
        let bed = try FileTestBed()
        #expect(try origin(bed, bed.make("f", protectionClass)) == .verified)
        #expect(try origin(bed, bed.makeWhole("g", protectionClass, [1, 2, 3])) == .verified)
        _ = try ProtectedFile.open(bed.path("f"), keybag: bed.keybag, requireVerifiedOrigin: true)
    }

    @Test func beforeFirstUnlock() throws {
        let bed = try FileTestBed()
        let path = try bed.make("verified", .none)
        try bed.enter(.beforeFirstUnlock)
        #expect(try origin(bed, path) == .unverified, "class key C is not here to check it")
        #expect(try origin(bed, bed.make("d", .none)) == .thisDevice)
        try bed.make("b", .completeUnlessOpen)
        try bed.make("d to b", .none)
        try bed.keybag.setProtection(.completeUnlessOpen, ofItemAt: bed.path("d to b"))
        try bed.keybag.setProtection(.completeUnlessOpen, ofItemAt: path)
        try bed.enter(.unlocked)
        #expect(try origin(bed, bed.path("b")) == .thisDevice)
        #expect(try origin(bed, bed.path("d")) == .thisDevice)
        #expect(try origin(bed, bed.path("d to b")) == .thisDevice)
        #expect(try origin(bed, path) == .unverified, "a change made before first unlock keeps that")
        expectError("unverifiedOrigin") {
            _ = try ProtectedFile.open(bed.path("b"), keybag: bed.keybag, requireVerifiedOrigin: true)
        }
    }

    @Test func carriedByClassChange() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let device = try bed.make("device", .completeUnlessOpen)
        try bed.enter(.unlocked)
        let verified = try bed.make("verified", .complete)
        for protectionClass in [ProtectionClass.none, .complete, .completeUnlessOpen] {
            for path in [device, verified] { try bed.keybag.setProtection(protectionClass, ofItemAt: path) }
            #expect(try origin(bed, verified) == .verified)
            #expect(try origin(bed, device) == .thisDevice, "never improved")
        }
    }

    @Test("A forged unless-open file gets no new contents and no other class, and can be read")
    func forgedFilesAreNotWritten() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlanted("forged")
        let bytes = try path.contents()
        expectError("unverifiedOrigin") { _ = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag) }
        expectError("unverifiedOrigin") {
            _ = try ProtectedFile.open(path, .readWrite, create: .complete, keybag: bed.keybag)
        }
        for protectionClass in [ProtectionClass.none, .completeUntilFirstUserAuthentication, .complete] {
            expectError("unverifiedOrigin") { try bed.keybag.setProtection(protectionClass, ofItemAt: path) }
        }
        #expect(try path.contents() == bytes)
        #expect(try bed.read(path) == [])
    }

    @Test("A handle that was open while its file was replaced in place by a forged one writes nothing to it")
    func forgedUnderAHandle() throws {
        let bed = try FileTestBed()
        let path = try bed.make("f", .complete, [1, 2, 3])
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        let forged = try bed.makePlanted("forged").contents()
        try path.overwrite(forged)
        for _ in 1...2 { expectError("unverifiedOrigin") { try file.write([4], at: 0) } }
        #expect(try path.contents() == forged)
        file.discard()
    }

    @Test("Files that were made while locked or before the first unlock can be written and raised afterwards")
    func madeWithoutKeys() throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let first = try bed.make("first", .completeUnlessOpen, [1])
        try bed.enter(.locked)
        let second = try bed.make("second", .completeUnlessOpen, [1])
        let held = try ProtectedFile.create(bed.path("held"), as: .completeUnlessOpen, keybag: bed.keybag)
        try held.write([1], at: 0)
        try bed.enter(.unlocked)
        try held.write([2], at: 1)
        try held.close()
        for path in [first, second] {
            let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
            try file.write([2], at: 1)
            try file.close()
        }
        for path in [first, second, bed.path("held")] {
            try bed.keybag.setProtection(.complete, ofItemAt: path)
            #expect(try bed.read(path) == [1, 2])
        }
    }

    @Test("A forged file does not hold up a rotation, and is still unverified afterwards")
    func forgedFilesAreRewrapped() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlanted("forged")
        try bed.bag.rotate()
        #expect(try bed.keybag.rewrap(fileAt: path) == .rewrapped)
        #expect(try origin(bed, path) == .unverified, "never improved")
        expectError("unverifiedOrigin") { _ = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag) }
    }

    @Test func forgedWithThePublicKeyOnly() throws {
        let bed = try FileTestBed()
        let path = try bed.makePlanted("forged")
        #expect(try bed.read(path) == [], "it opens: anybody can wrap for class B")
        #expect(try origin(bed, path) == .unverified)
        expectError("unverifiedOrigin") {
            _ = try ProtectedFile.open(path, keybag: bed.keybag, requireVerifiedOrigin: true)
        }
    }

    @Test("A forged mark is shown as a claim, not as a verdict")
    func inspected() throws {
        let bed = try FileTestBed()
        let mark = OriginMark(
            verdict: .verified, key: .classC, generation: 1, mac: [UInt8](repeating: 7, count: 32))
        let forged = try FileInspection(of: bed.makePlanted("forged", mark), keybag: bed.keybag)
        #expect(forged.identity?.origin.verdict == .verified, "that is what it claims")
        #expect(forged.origin == .unverified)
        let genuine = try bed.make("genuine", .completeUnlessOpen)
        #expect(try FileInspection(of: genuine, keybag: bed.keybag).origin == .verified)
        #expect(try FileInspection(of: genuine, keybag: nil).origin == .unverified, "no key can be asked")
        try bed.enter(.beforeFirstUnlock)
        #expect(try FileInspection(of: genuine, keybag: bed.keybag).origin == .unverified, "class key C is not here")
    }

    /// Claims without the keys behind them.
    @Test(arguments: [OriginMark.Key.device, .classC], [OriginMark.Verdict.unverified, .thisDevice, .verified])
    func forgedClaims(_ key: OriginMark.Key, _ verdict: OriginMark.Verdict) throws {
        let bed = try FileTestBed()
        let mark = OriginMark(
            verdict: verdict, key: key, generation: key == .classC ? 1 : 0, mac: [UInt8](repeating: 7, count: 32))
        #expect(try origin(bed, bed.makePlanted("forged", mark)) == .unverified)
        _ = bed
    }
}
