import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("The device key")
struct KeybagDeviceKeyTests {
    @Test("That is missing: another device, and no attempt is counted")
    func missing() throws {
        let bag = try TestKeybag()
        try bag.deviceKey.remove()
        for passcode in [TestKeybag.passcode, "wrong"] { expectError("otherDevice") { try bag.unlock(passcode) } }
        #expect(try bag.attempts()?.failures == 0)
        #expect(bag.ringContents == [])
        expectError("otherDevice") { _ = try bag.keyID(.none) }
    }

    @Test("That is another one: another device, and no attempt is counted")
    func another() throws {
        let bag = try TestKeybag()
        try bag.deviceKey.overwrite([UInt8](repeating: 7, count: 32))
        for passcode in [TestKeybag.passcode, "wrong"] {
            let error = expectError("otherDevice") { try bag.unlock(passcode) }
            #expect(error == .because(KeybagFailure.otherDevice(keybag: bag.directory, deviceKey: bag.deviceKey)))
        }
        #expect(try bag.attempts()?.failures == 0)
        #expect(bag.ringContents == [])
        expectError("otherDevice") { _ = try bag.keyID(.none) }
    }

    @Test("Of another keybag of this user is the same key, but gives another id")
    func twoIDs() throws {
        let bag = try TestKeybag()
        let device = try DeviceKey(secret: secret(try bag.deviceKey.contents()))
        #expect(try device.id(for: bag.keybag.uuid) == bag.keybag.file.load().copy.deviceID)
        #expect(try device.id(for: KeybagUUID.random()) != bag.keybag.file.load().copy.deviceID)
    }

    @Test("That is not a file of 32 bytes that only the user reads is not used", arguments: Imposter.all)
    func unusable(imposter: Imposter) throws {
        let bag = try TestKeybag()
        try imposter.replace(bag.deviceKey)
        // A FIFO without a writer must not keep anybody waiting; this test would not end.
        let error = expectError("deviceKeyUnusable") { try bag.unlock() }
        guard case .because(KeybagFailure.deviceKeyUnusable(let path, let reason))? = error else { return }
        #expect(path == bag.deviceKey)
        #expect(reason.contains(imposter.reason), "\(reason)")
        #expect(try bag.attempts()?.failures == 0)
        #expect(bag.ringContents == [])
        expectError("deviceKeyUnusable") { _ = try bag.keyID(.none) }
    }

    @Test("At a path that somebody wrote into the keybag is not waited for", arguments: Imposter.all)
    func craftedPath(imposter: Imposter) throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("crafted")
        try place.overwrite(try bag.deviceKey.contents())
        try imposter.replace(place)
        var copy = try StoredKeybag(of: bag)
        copy.setPath(Array(place.string.utf8))
        copy.finish()
        try copy.store(in: bag)
        expectError("deviceKeyUnusable") { try bag.reopened().unlock(passcode: secret(TestKeybag.passcode)) }
        #expect(try bag.attempts()?.failures == 0)
    }

    @Test("That nobody can look for is not called missing")
    func unknown() throws {
        let bag = try TestKeybag()
        let loop = bag.scratchPath.appending("loop")
        #expect(symlink(loop.string, loop.string) == 0)
        var copy = try StoredKeybag(of: bag)
        copy.setPath(Array(loop.appending("device-key").string.utf8))
        copy.finish()
        try copy.store(in: bag)
        let error = expectError("deviceKeyUnusable") {
            try bag.reopened().unlock(passcode: secret(TestKeybag.passcode))
        }
        #expect(error.map { "\($0)" }?.contains("cannot be looked for: Too many levels of symbolic links") == true)
        #expect(try bag.attempts()?.failures == 0)
    }

    @Test("At a path that leads to a device of the system is not read", arguments: ["/dev/zero", "/dev/null", "/"])
    func systemPaths(path: String) throws {
        let bag = try TestKeybag()
        var copy = try StoredKeybag(of: bag)
        copy.setPath(Array(path.utf8))
        copy.finish()
        try copy.store(in: bag)
        expectError("deviceKeyUnusable") { try bag.reopened().unlock(passcode: secret(TestKeybag.passcode)) }
    }

    @Test(
        "Of another user is not used",
        .enabled(if: geteuid() == 0, "only root can give a file away"))
    func foreignOwner() throws {
        let bag = try TestKeybag()
        #expect(chown(bag.deviceKey.string, 65_534, 65_534) == 0)
        let error = expectError("deviceKeyUnusable") { try bag.unlock() }
        #expect(
            error
                == .because(
                    KeybagFailure.deviceKeyUnusable(bag.deviceKey, reason: "it belongs to uid 65534, not to you")))
    }

    @Test("Is made once and then used by every keybag of the user")
    func reused() throws {
        let bag = try TestKeybag()
        let before = try bag.deviceKey.contents()
        let second = bag.scratchPath.appending("second")
        try Keybag.create(at: second, passcode: secret("x"), iterations: 1000, deviceKey: bag.deviceKey)
        #expect(try bag.deviceKey.contents() == before)
        #expect(Set(before).count > 8, "32 random bytes have more than 8 values")
    }

    @Test("That is there but unusable: no keybag is made, and the file stays as it is")
    func createRefuses() throws {
        let bag = try TestKeybag()
        try bag.deviceKey.overwrite([1, 2, 3])
        let second = bag.scratchPath.appending("second")
        expectError("deviceKeyUnusable") {
            try Keybag.create(at: second, passcode: secret("x"), iterations: 1000, deviceKey: bag.deviceKey)
        }
        #expect(try bag.deviceKey.contents() == [1, 2, 3])
        #expect(try bag.scratchPath.names() == ["device-key", "keybag"])
    }

    @Test("Made by many at the same time is one, and nothing else is left")
    func concurrently() async throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("new/device-key")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                let directory = bag.scratchPath.appending("keybag-\(number)")
                group.addTask {
                    try Keybag.create(at: directory, passcode: secret("x"), iterations: 1000, deviceKey: place)
                }
            }
            try await group.waitForAll()
        }
        #expect(try bag.scratchPath.appending("new").names() == ["device-key"])
        let device = try DeviceKey(secret: secret(try place.contents()))
        for number in 0..<8 {
            let copy = try KeybagFile(directory: bag.scratchPath.appending("keybag-\(number)")).load().copy
            #expect(try device.id(for: copy.uuid) == copy.deviceID)
        }
    }

    /// What can stand where the device key should be.
    struct Imposter: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let reason: String
        private let make: @Sendable (FilePath) throws -> Void

        /// Puts it in the place of the key at `path`.
        func replace(_ path: FilePath) throws { try make(path) }

        static let all = [
            Imposter(testDescription: "FIFO", reason: "regular file") { path in
                try path.remove()
                try path.makeFIFO()
            },
            Imposter(testDescription: "directory", reason: "regular file") { try $0.replaceByDirectory() },
            Imposter(testDescription: "socket", reason: "regular file") { path in
                try path.remove()
                #expect(mknod(path.string, S_IFSOCK | 0o600, 0) == 0)
            },
            Imposter(testDescription: "symbolic link to the key", reason: "symbolic link") { path in
                let moved = path.removingLastComponent().appending("moved")
                #expect(rename(path.string, moved.string) == 0)
                try path.makeSymbolicLink(to: moved)
            },
            Imposter(testDescription: "empty", reason: "0 bytes") { try $0.overwrite([]) },
            Imposter(testDescription: "31 bytes", reason: "31 bytes") { try $0.overwrite($0.contents().dropLast()) },
            Imposter(testDescription: "33 bytes", reason: "33 bytes") { try $0.overwrite($0.contents() + [0]) },
            Imposter(testDescription: "readable for the group", reason: "600") { try $0.setMode(0o640) },
            Imposter(testDescription: "writable for others", reason: "600") { try $0.setMode(0o602) },
        ]
    }
}
