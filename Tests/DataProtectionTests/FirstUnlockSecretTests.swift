import ProtectionFormat
import ProtectionKeys
import SystemPackage
import TestEffort
import Testing

@testable import DataProtection

/// FORMAT.md §2.20.
@Suite("First-unlock secrets")
struct FirstUnlockSecretTests {
    private let bed: FileTestBed
    private var bag: TestKeybag { bed.bag }
    private static let contents = (0..<5000).map { UInt8(truncatingIfNeeded: $0 * 7) }

    init() throws { bed = try FileTestBed() }

    private func add(_ name: String = "archive") throws -> FirstUnlockSecret {
        let new = try FirstUnlockSecret.random()
        try opened().add(new, named: name)
        return new
    }

    private func opened() throws -> OpenedKeybag { try bag.keybag.open(passcode: secret(TestKeybag.passcode)) }

    /// As after a restart.
    private func unlock(_ secret: borrowing FirstUnlockSecret) throws {
        try bag.keybag.evictEverything()
        try bag.reopened().unlockOnlyFirstUnlock(secret: secret)
    }

    private func problem(_ secret: borrowing FirstUnlockSecret) throws -> FirstUnlockSecretProblem? {
        do { try unlock(secret) } catch DataProtectionError.because(KeybagFailure.firstUnlockSecret(_, let problem)) {
            #expect(bag.ringContents == [])
            return problem
        }
        return nil
    }

    private func reads(_ path: FilePath) throws -> Bool {
        do {
            return try ProtectedFile.open(path, keybag: bag.reopened()).bytes(at: 0, count: 5000) == Self.contents
        } catch DataProtectionError.because(KeybagFailure.locked) {
            return false
        }
    }

    @Test("One opens class C of all generations, with class C of secrets, and no other class; the passcode may change")
    func opensC() throws {
        var paths = try ProtectionClass.allCases.map { try bed.make("\($0)", $0, Self.contents) }
        try bag.rotate()
        paths.append(try bed.make("new", .completeUntilFirstUserAuthentication, Self.contents))
        let secret = try add()
        try bag.keybag.changePasscode(
            from: DataProtectionTests.secret(TestKeybag.passcode), to: DataProtectionTests.secret("new"),
            iterations: TestKeybag.iterations)
        try unlock(secret)
        #expect(bag.ringContents == [2])
        #expect(try bag.keybag.state() == .locked)
        #expect(try paths.map(reads) == [false, false, true, true, true], "A, B, C, D, and C of the new generation")
        try bag.unlock("new")
        let withSecret = try bag.payload(.firstUnlock).count
        try unlock(secret)
        #expect(try bag.payload(.firstUnlock).count == withSecret, "what an unlock with the passcode loads")
    }

    @Test("A removed one is unknown, and so is one from before a rotation and one of another keybag; others stay")
    func ends() throws {
        let first = try add("first")
        let second = try add("second")
        #expect(bag.keybag.firstUnlockSecrets.map(\.name) == ["first", "second"])
        try opened().removeFirstUnlockSecret(named: "first")
        #expect(try problem(first) == .unknown)
        #expect(try problem(second) == nil)
        #expect(try problem(.random()) == .unknown)
        try bag.unlock()
        try bag.rotate()
        #expect(try problem(second) == .unknown)
        #expect(try bag.reopened().firstUnlockSecrets == [])
        // The class keys of that copy open no file that was rotated.
        #expect(try problem(add("second")) == nil)
    }

    @Test("After a rotation by a version that knows none, it is outdated, and loads nothing")
    func outdated() throws {
        let secret = try add()
        try bag.unlock()
        let opened = try opened()
        let device = try bag.keybag.deviceKey()
        let other = try KeybagKey.random(for: bag.keybag.uuid)
        var copy = try bag.keybag.file.load().copy
        try copy.rotateKeys(from: opened.key, to: other, device)
        copy.slots = [try Keybag.passcodeSlot(DataProtectionTests.secret(TestKeybag.passcode), 1000, device, other)]
        copy.sequence += 1
        let bytes = try copy.encoded(under: other)
        _ = try bag.keybag.file.replace { _ in bytes }
        #expect(try problem(secret) == .outdated(name: "archive"))
        #expect(try bag.reopened().firstUnlockSecrets == [FirstUnlockSecretEntry(name: "archive", isCurrent: false)])
        try bag.unlock()
        try self.opened().removeFirstUnlockSecret(named: "archive")
        #expect(try problem(add()) == nil)
    }

    @Test("It survives that retired class keys are forgotten, of files alone too")
    func forgotten() throws {
        try bag.unlock()
        try bag.rotate()
        let secret = try add()
        try bag.unlock()
        let generation = bag.keybag.activeGeneration
        // A store of secrets that was not looked at: their class keys stay.
        try bag.file(SecretsKeys.directoryName).overwrite([])
        try opened().forgetRetiredKeys(before: generation)
        #expect(try problem(secret) == nil)
        try bag.unlock()
        try opened().forgetRetiredKeys(before: generation, secretsAreRewrapped: true)
        #expect(try bag.reopened().retiredGenerations == [])
        #expect(try problem(secret) == nil)
    }

    @Test("From a forged keybag, a first-unlock secret loads the genuine keys or none")
    func forged() throws {
        let secret = try add()
        try unlock(secret)
        let genuine = Array(try bag.payload(.firstUnlock).dropFirst(16))
        let copy = try bag.keybag.file.load().copy
        var random = Effort.generator("FirstUnlockSecretTests.forged")
        let clear = try copy.encoded(under: KeybagKey.random(for: copy.uuid))
        let entries = clear.count - 64 - 200 * copy.entries.count
        var refused = 0
        for _ in 0..<Effort.count(150, 5000) {
            var bytes = Array(clear.dropLast(64))
            let place = Int.random(in: entries..<bytes.count, using: &random)
            switch Int.random(in: 0..<6, using: &random) {
            case 4:
                // One more: of another generation, retired, with an id of the forger's own.
                let start = entries + 200 * Int.random(in: 0..<copy.entries.count, using: &random)
                var entry = Array(clear[start..<start + 200])
                (entry[2], entry[4], entry[8]) = (2, UInt8.random(in: 2...9, using: &random), entry[8] ^ 1)
                bytes += entry
                bytes[59] += 1
                for byte in 0..<4 { bytes[12 + byte] = UInt8(truncatingIfNeeded: (bytes.count + 64) >> (8 * byte)) }
            case 5:
                let start = entries + 200 * Int.random(in: 0..<copy.entries.count, using: &random)
                bytes.removeSubrange(start..<start + 200)
                bytes[59] -= 1
                for byte in 0..<4 { bytes[12 + byte] = UInt8(truncatingIfNeeded: (bytes.count + 64) >> (8 * byte)) }
            case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 2:
                let other = entries + 200 * Int.random(in: 0..<copy.entries.count, using: &random)
                let count = Int.random(in: 1...200, using: &random)
                let end = min(bytes.count, place + count)
                bytes.replaceSubrange(place..<end, with: clear[other..<other + end - place])
            default:
                let (one, two) = (Int.random(in: 0..<8, using: &random), Int.random(in: 0..<8, using: &random))
                guard one < copy.entries.count, two < copy.entries.count else { continue }
                for byte in 0..<200 { bytes.swapAt(entries + 200 * one + byte, entries + 200 * two + byte) }
            }
            // Whoever forges computes the check, and has no MAC.
            bytes += [UInt8](repeating: 0, count: 32)
            bytes += try Digest.sha256(bytes)
            try store(bytes)
            do { try unlock(secret) } catch is DataProtectionError {
                refused += 1
                #expect(bag.ringContents == [])
                continue
            }
            let loaded = Array(try bag.payload(.firstUnlock).dropFirst(16))
            // Another order of the same keys is no gain.
            let sorted = [genuine, loaded].map { payload in
                stride(from: 0, to: payload.count, by: 40).map { "\(payload[$0..<$0 + 40])" }.sorted()
            }
            #expect(sorted[0] == sorted[1])
        }
        #expect(refused > 10)
    }

    private func store(_ bytes: [UInt8]) throws {
        for name in KeybagFile.names { try bag.file(name).overwrite(bytes) }
    }

    @Test("It is good on this machine only, and a recovery with another device key removes it")
    func otherDevice() throws {
        let secret = try add()
        let code = try RecoveryCode.random()
        try opened().setRecoveryCode(code, iterations: TestKeybag.iterations)
        try bag.deviceKey.remove()
        expectError("otherDevice", "it is not there") { try unlock(secret) }
        try bag.deviceKey.overwrite([UInt8](repeating: 7, count: 32))
        try bag.deviceKey.setMode(0o600)
        expectError("otherDevice") { try unlock(secret) }
        try bag.keybag.open(recoveryCode: code).recover(
            passcode: DataProtectionTests.secret("new"), TestKeybag.iterations, recoveryCode: .random(),
            TestKeybag.iterations)
        #expect(try problem(secret) == .unknown)
        #expect(try bag.reopened().firstUnlockSecrets == [])
    }

    @Test(
        "An older copy of the keybag that was put back does not take newer keys out of the ring",
        arguments: [false, true])
    func older(isForgotten: Bool) throws {
        let secret = try add()
        let saved = try KeybagFile.names.map { try bag.file($0).contents() }
        try bag.unlock()
        try bag.rotate()
        if isForgotten { try bag.forgetRetired() }
        try bag.keybag.lock()
        let ring = try bag.payload(.firstUnlock)
        for (name, bytes) in zip(KeybagFile.names, saved) { try bag.file(name).overwrite(bytes) }
        expectError("keybagDamaged") { try bag.reopened().unlockOnlyFirstUnlock(secret: secret) }
        #expect(try bag.payload(.firstUnlock) == ring)
        try unlock(secret)
    }

    @Test("No attempt is counted, a delay of passcodes does not concern it, and a lock made meanwhile wins")
    func attempts() throws {
        let secret = try add()
        for number in 0..<6 { _ = try? bag.unlock("wrong \(number)") }
        let before = try bag.file("attempts").contents()
        #expect(try problem(.random()) == .unknown)
        #expect(try problem(secret) == nil)
        #expect(try bag.file("attempts").contents() == before)
        let keybag = try bag.reopened()
        let counter = try keybag.transition.readStrictly().counter
        let keys = try OpenedKeys(keybag.file.load().copy, sharedWith: secret, keybag.deviceKey(), of: keybag)
        try keybag.evictEverything()
        try keybag.lock()
        expectError("lockedMeanwhile") { _ = try keybag.load(keys, seconds: nil, ifCounterIs: counter) }
        #expect(bag.ringContents == [])
    }

    @Test("A name is 1 to 64 bytes that a terminal can show, and of one secret only")
    func names() throws {
        let wrong = ["a\u{7}b", "\u{9b}", "a\nb", "a\u{202E}b", "\u{2028}", "\u{E0041}", "x\u{FFFD}"]
        for name in wrong + ["", String(repeating: "n", count: 65)] {
            let error = expectError("firstUnlockSecret") { _ = try add(name) }
            #expect(error == .because(KeybagFailure.firstUnlockSecret(keybag: bag.directory, .unusableName)))
        }
        for name in [String(repeating: "n", count: 64), "Größe", "a b"] { _ = try add(name) }
        let twice = expectError("firstUnlockSecret") { _ = try add("a b") }
        #expect(twice == .because(KeybagFailure.firstUnlockSecret(keybag: bag.directory, .exists(name: "a b"))))
        let absent = expectError("firstUnlockSecret") { try opened().removeFirstUnlockSecret(named: "none") }
        #expect(absent == .because(KeybagFailure.firstUnlockSecret(keybag: bag.directory, .absent(name: "none"))))
    }

    @Test("A full keybag takes no more of them, opens as before, and can be rotated")
    func full() throws {
        try bag.unlock()
        var count = 0
        while true {
            let new = try FirstUnlockSecret.random()
            do { try opened().add(new, named: "\(count)") } catch DataProtectionError.because(
                KeybagFailure.firstUnlockSecret(_, .noRoom))
            { break }
            count += 1
        }
        #expect(count == 64 - 6)
        try opened().removeFirstUnlockSecret(named: "0")
        let last = try add("last")
        #expect(try problem(last) == nil)
        try bag.unlock()
        try bag.rotate()
        #expect(try problem(last) == .unknown)
    }

    @Test("Text is 64 hexadecimal digits in either case, and nothing else")
    func text() throws {
        let new = try FirstUnlockSecret.random()
        let text = new.text().withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        #expect(text.utf8.count == 64 && text.allSatisfy { $0.isHexDigit && !$0.isUppercase })
        for form in [text, text.uppercased()] {
            let id = try FirstUnlockSecret(reading: secret(form))?.id(for: bag.keybag.uuid)
            #expect(try id == new.id(for: bag.keybag.uuid))
        }
        for wrong in ["", String(text.dropLast()), text + "0", String(text.dropLast()) + "g", "0x" + text.dropLast(2)] {
            let isRead = FirstUnlockSecret(reading: secret(wrong)) != nil
            #expect(!isRead)
        }
    }

    @Test(
        "A reader that was written from FORMAT.md opens class C with it, and nothing else",
        .enabled(if: IndependentReaderTests.hasPython, "python3 with the package cryptography is not here"))
    func independent() throws {
        let old = try bed.make("old", .completeUntilFirstUserAuthentication, Self.contents)
        let secretFile = try bed.make("a", .complete, Self.contents)
        try bag.rotate()
        let new = try bed.make("new", .completeUntilFirstUserAuthentication, Self.contents)
        let secret = try add()
        let text = secret.text().withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        func read(_ files: [FilePath], _ text: String) throws -> IndependentReaderTests.Answer {
            try IndependentReaderTests.python(
                [IndependentReaderTests.folder.appending("first_unlock.py").string, "--keybag", bag.directory.string]
                    + ["--device-key", bag.deviceKey.string] + files.map(\.string), input: text)
        }
        #expect(try read([old, new], text).output == Self.contents + Self.contents)
        #expect(try read([secretFile], text).status == 65)
        let wrong = try read([old], String(text.reversed()))
        #expect(wrong.status == 65 && wrong.error.contains("unknown secret"))
    }
}
