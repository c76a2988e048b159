import Foundation
import ProtectionFormat
import ProtectionKeys
import StormScript
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedFiles

/// What stored bytes say, whatever the lock state and however damaged they are.
@Suite struct InspectionTests {
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    @Test(arguments: [ProtectionState.unlocked, .locked, .beforeFirstUnlock])
    func inEveryState(_ state: ProtectionState) throws {
        let path = try bed.make("f", .complete, pattern(1, count: 10_000))
        try bed.enter(state)
        let seen = try FileInspection(of: path, keybag: bed.keybag)
        let identity = try #require(seen.identity)
        let outline = try #require(seen.outline)
        #expect(identity.protectionClass == .complete && identity.keybag == bed.keybag.uuid)
        #expect(identity.generation == 1 && identity.chunkSize == 4096 && identity.origin.verdict == .verified)
        #expect(outline.size == 10_000 && outline.chunkCount == 3 && !outline.isInline && outline.holes == [])
        #expect(
            seen.slots.map(\.condition) == [.equal, .inForce] || seen.slots.map(\.condition) == [.inForce, .equal])
        #expect(seen.extent == seen.storedLength && seen.problem == nil && seen.recordCount == 0)
        if state == .unlocked {
            #expect(seen.authenticity == .authentic)
        } else {
            guard case .unverified(.because(KeybagFailure.locked))? = seen.authenticity else {
                Issue.record("\(String(describing: seen.authenticity))")
                return
            }
        }
        #expect(try FileInspection(of: path, keybag: nil).authenticity == nil)
    }

    @Test func newHolesAndOpenFiles() throws {
        let new = try FileInspection(of: try bed.makeWhole("new", .none, [1, 2, 3]), keybag: nil)
        #expect(new.slots.map(\.condition) == [.inForce, .absent])
        #expect(new.outline?.isInline == true && new.slots[0].wrapCounter == 1)
        let path = try bed.make("f", .complete, pattern(1, count: 10_000))
        let writer = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try writer.truncate(to: 100_000)
        try writer.sync()
        #expect(try FileInspection(of: path, keybag: nil).outline?.holes == [3..<25])
        try writer.write([1], at: 0)
        try writer.sync()
        let open = try FileInspection(of: path, keybag: bed.keybag)
        #expect(open.recordCount > 0 && open.redoOffset > 0 && open.extent == nil)
        #expect(open.slots.contains { $0.condition == .older })
        try writer.close()
        #expect(try FileInspection(of: path, keybag: nil).recordCount == 0)
    }

    /// A head of which a record is damaged shows the others.
    @Test func whatCanBeReadOfADamagedFile() throws {
        let path = try bed.makeWhole("f", .complete, pattern(1, count: 10_000), isSmall: true)
        let stored = try path.contents()
        var bytes = stored
        bytes[283] ^= 0xFF  // the size, beyond 2^60
        try path.overwrite(bytes)
        var seen = try FileInspection(of: path, keybag: bed.keybag)
        #expect(seen.identity?.protectionClass == .complete && seen.outline == nil)
        #expect(seen.slots.map(\.condition) == [.torn, .absent])
        #expect(seen.problem?.caseName == "damaged")
        bytes = stored
        bytes[71] ^= 0xFF  // the wrap counter, beyond 2^62
        try path.overwrite(bytes)
        seen = try FileInspection(of: path, keybag: bed.keybag)
        #expect(seen.identity == nil && seen.outline?.size == 10_000)
        guard case .refused? = seen.authenticity else {
            Issue.record("a head with a bad check is not authentic")
            return
        }
    }

    /// No byte, however altered, makes inspecting fail for another reason than "not ours"; nor a length.
    @Test func anyDamageIsShown() throws {
        let path = try bed.make("f", .completeUnlessOpen, pattern(1, count: 500))
        let bench = try TamperBench(bed, "g", try path.contents())
        for place in stride(from: 0, to: bench.stored.count, by: 97) {
            var bytes = bench.stored
            bytes[place] ^= 0x55
            try bench.path.overwrite(bytes)
            let seen = try FileInspection(of: bench.path, keybag: bed.keybag)
            #expect(seen.problem != nil || seen.slots.contains { $0.condition == .torn }, "byte \(place)")
        }
        for length in stride(from: 8, to: bench.stored.count, by: 301) {
            try bench.path.overwrite(Array(bench.stored[..<length]))
            #expect(try FileInspection(of: bench.path, keybag: bed.keybag).problem != nil, "\(length) bytes")
        }
        expectError("notProtected") {
            _ = try FileInspection(of: try bed.makePlain("plain", [1, 2, 3]), keybag: nil)
        }
    }

    @Test func aNewerVersion() throws {
        let path = try bed.makeWhole("f", .complete, [1])
        var bytes = try path.contents()
        bytes[8] = 2
        bytes.replaceSubrange(4064..<4096, with: try Digest.sha256(Array(bytes[..<4064])))
        try path.overwrite(bytes)
        let seen = try FileInspection(of: path, keybag: bed.keybag)
        guard case .refused(let reason)? = seen.slots.first?.condition else {
            Issue.record("\(seen.slots)")
            return
        }
        #expect(reason.contains("format version 2") && seen.problem?.caseName == "unsupported")
    }
}

/// What a keybag's files say, and what can go wrong around them.
@Suite struct KeybagInspectionTests {
    private let bag: TestKeybag
    init() throws { bag = try TestKeybag() }

    @Test func whole() throws {
        let seen = try KeybagInspection(of: bag.directory)
        #expect(seen.uuid == bag.keybag.uuid && seen.deviceKey == bag.deviceKey)
        #expect(seen.copies.map(\.condition) == [.inForce, .equal])
        #expect(seen.slots == [.init(kind: .passcode, iterations: 1000)] && seen.slots[0].isWeak)
        let ofSecrets: [ProtectionClass] = [.complete, .completeUntilFirstUserAuthentication]
        #expect(seen.entries.map(\.protectionClass) == ProtectionClass.allCases + ofSecrets)
        #expect(seen.entries.map(\.kind) == [0, 0, 0, 0, 1, 1])
        #expect(seen.entries.allSatisfy { $0.isActive && $0.generation == 1 && $0.id.count == 16 })
        let copy = try KeybagInspection(of: bag.file("keybag.1"))
        #expect(copy.uuid == seen.uuid && copy.copies.count == 1)
        #expect(KeybagInspection.isKeybag(bag.directory) && KeybagInspection.isKeybag(bag.file("keybag.0")))
        #expect(!KeybagInspection.isKeybag(bag.file("attempts")) && !KeybagInspection.isKeybag(bag.scratchPath))
    }

    @Test func copiesThatDiffer() throws {
        let stored = try bag.file("keybag.1").contents()
        try bag.file("keybag.1").overwrite([1, 2, 3])
        guard case .damaged? = try KeybagInspection(of: bag.directory).copies.last?.condition else {
            Issue.record("three bytes are no copy")
            return
        }
        try bag.file("keybag.1").remove()
        #expect(try KeybagInspection(of: bag.directory).copies.map(\.condition) == [.inForce, .missing])
        try bag.file("keybag.1").overwrite(stored)
        try bag.unlock()
        try bag.keybag.changePasscode(from: secret(TestKeybag.passcode), to: secret("other"), iterations: 1000)
        try bag.file("keybag.1").overwrite(stored)
        #expect(try KeybagInspection(of: bag.directory).copies.map(\.condition) == [.inForce, .other(sequence: 1)])
        for copy in ["keybag.0", "keybag.1"] { try bag.file(copy).overwrite([1]) }
        expectError("keybagDamaged") { _ = try KeybagInspection(of: bag.directory) }
        expectError("keybagDamaged") { _ = try KeybagInspection(of: bag.file("keybag.0")) }
    }

    /// Looking changes no byte and no mode.
    @Test func changesNothing() throws {
        try bag.directory.setMode(0o755)
        try bag.file("attempts").overwrite([1])
        _ = try KeybagInspection(of: bag.directory)
        let health = KeybagHealth(of: bag.directory)
        #expect(health.validAttemptSectors == 0)
        #expect(try bag.directory.mode() == 0o755)
        #expect(try bag.file("attempts").contents() == [1])
    }

    @Test func health() throws {
        var health = KeybagHealth(of: bag.directory)
        #expect(health.validAttemptSectors == 2 && health.deviceKeyProblem == nil && health.ringProblem == nil)
        #expect(health.unfinishedClassChanges == 0)
        try bag.file("attempts").remove()
        try bag.deviceKey.setMode(0o644)
        try FileManager.default.createDirectory(
            atPath: bag.file("changing").string, withIntermediateDirectories: false)
        try bag.file("changing").appending("1.2").overwrite(Array("1 2 /nowhere".utf8))
        health = KeybagHealth(of: bag.directory)
        #expect(health.validAttemptSectors == nil && health.deviceKeyProblem?.caseName == "deviceKeyUnusable")
        #expect(health.unfinishedClassChanges == 1)
        #expect(!(try bag.directory.names().contains("attempts")), "it is not made anew")
        guard case .failure(.because(KeybagFailure.keybagNotFound)) = KeybagHealth(of: "/nowhere").inspection else {
            Issue.record("there is no keybag in /nowhere")
            return
        }
    }

    @Test func keyringReach() {
        #expect(KeyringReach().failure == nil)
        #expect(CryptographyLibrary.majorVersion >= 3 && CryptographyLibrary.version.hasPrefix("OpenSSL"))
    }
}
