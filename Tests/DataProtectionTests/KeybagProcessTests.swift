import CKeyutils
import Glibc
import KernelKeyring
import KeyQuota
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

// What depends on the whole process: its uid, its environment, its working directory. Each test runs in a child of its own.
#if compiler(>=6.3)
    @Suite("A keybag in a process of its own")
    struct KeybagProcessTests {
        @Test(
            "Locking all evicts the keys of every keybag in the ring, dead and unreachable ones included",
            .enabled(if: geteuid() == 0, "it would lock the keybags of whoever runs it; root can become another uid"))
        func lockAll() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bags = try (0..<4).map { _ in try TestKeybag(state: .unlocked) }
                try bags[1].keybag.lock()
                try bags[2].directory.remove()
                try bags[3].setTimeout(.unlocked, seconds: 1)
                try bags[3].waitUntilExpired(.unlocked)
                let never = try TestKeybag()

                let uuids = Set(bags.map(\.keybag.uuid))
                #expect(try Set(Keybag.loaded()) == uuids)
                #expect(try Set(Keybag.lockAll()) == uuids)
                for bag in bags { #expect(bag.ringContents == [2]) }
                for bag in bags { #expect(bag.absence(.unlocked) == .requiredKeyNotAvailable) }
                #expect(never.ringContents == [])
                #expect(try Set(Keybag.lockAll()) == uuids, "class key C of each is still there")
                for bag in bags { try bag.keybag.evictEverything() }
                #expect(try Keybag.lockAll() == [])
                try home.remove()
            }
        }

        @Test(
            "Locking all clears a key that a killed unlock left, and leaves foreign names alone",
            .enabled(if: geteuid() == 0, "it would lock the keybags of whoever runs it; root can become another uid"))
        func lockAllHalfMade() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bag = try TestKeybag()
                try bag.plant(.unlocked, [1], permissions: nil)
                let foreign = RingKey(description: "protectfs:not-a-uuid:1")
                try RingWriter.run { () throws(Errno) in
                    var byte: UInt8 = 1
                    _ = try withUnsafeBytes(of: &byte) { bytes in Result { () throws(Errno) in try foreign.load(bytes) }
                    }
                    .get()
                }
                #expect(try Keybag.lockAll() == [bag.keybag.uuid])
                #expect(bag.ringContents == [])
                #expect(throws: Never.self) { try foreign.find() }
                try home.remove()
            }
        }

        @Test("Attempts that this uid may not write are not made; a lock without a readable directory evicts")
        func permissions() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bag = try TestKeybag(state: .unlocked)
                try bag.directory.setMode(0)
                let unread = expectError("system") { try bag.keybag.lock() }
                #expect(unread?.errno == .permissionDenied)
                #expect(bag.ringContents == [2])

                try bag.directory.setMode(0o700)
                try bag.file("attempts").setMode(0o400)
                let error = expectError("attemptsNotRecorded") { try bag.unlock() }
                #expect(error == .because(KeybagFailure.attemptsNotRecorded(bag.file("attempts"), .permissionDenied)))
                #expect(bag.ringContents == [2])

                try bag.file("attempts").setMode(0o600)
                try bag.directory.setMode(0o500)
                try bag.unlock()
                #expect(try bag.keybag.state() == .unlocked)
                try bag.file("transition").setMode(0)
                try bag.keybag.lock()
                #expect(try bag.keybag.state() == .locked)
                expectError("system") { try bag.unlock() }
                try bag.directory.setMode(0o700)
                try home.remove()
            }
        }

        @Test("The user's keybag is where PROTECTFS_KEYBAG says, else in XDG_DATA_HOME")
        func user() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                #expect(Locations.keybag == home.appending("data/protectfs/default"))
                expectError("keybagNotFound") { _ = try Keybag.user }
                let standard = try Keybag.create(at: Locations.keybag, passcode: secret("x"), iterations: 1000)
                #expect(try Keybag.user.uuid == standard.uuid)
                #expect(try Keybag.user.directory == home.appending("data/protectfs/default"))
                #expect(try home.appending("state/protectfs/device-key").contents().count == 32)

                let bag = try TestKeybag()
                setenv("PROTECTFS_KEYBAG", bag.directory.string, 1)
                #expect(try Keybag.user.uuid == bag.keybag.uuid)
                unsetenv("PROTECTFS_KEYBAG")
                setenv("XDG_DATA_HOME", "relative", 1)
                setenv("HOME", home.string, 1)
                #expect(Locations.keybag == home.appending(".local/share/protectfs/default"))
                try home.remove()
            }
        }

        @Test("A device key that is not where the keybag says is taken from XDG_STATE_HOME")
        func deviceKeyElsewhere() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bag = try TestKeybag()
                try OwnDirectory.make(home.appending("state/protectfs"))
                try AtomicReplace.rename(bag.deviceKey, to: home.appending("state/protectfs/device-key"))
                try bag.unlock()
                #expect(try bag.keybag.state() == .unlocked)
                // The recorded path comes first when there is anything.
                try bag.deviceKey.overwrite([UInt8](repeating: 1, count: 32))
                expectError("otherDevice") { try bag.unlock() }
                try home.remove()
            }
        }

        @Test(
            "However often keys come and go, they leave nothing behind of what a user may have",
            .enabled(if: geteuid() == 0, "other tests use this uid's; root can become another one"))
        func quota() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let payload = [UInt8](repeating: 1, count: 56)
                let keys = (1...3).map { RingKey(description: "protectfs:test:quota:\($0)") }
                // Several at once: the kernel's collector is on its way for the first while the others go.
                func turn() throws {
                    try RingWriter.run { () throws(Errno) in
                        for key in keys { try payload.lendBytes { bytes throws(Errno) in _ = try key.load(bytes) } }
                    }
                    try RingWriter.run { () throws(Errno) in for key in keys { try key.evict() } }
                }
                // The kernel forgets dead keys when it has time for it: the least that is seen is what stays.
                func least() -> Int {
                    (0..<200).map { _ in
                        usleep(5_000)
                        return KeyQuota.bytes
                    }.min()!
                }
                try turn()
                let before = least()
                #expect(before > 0)
                for _ in 0..<400 {
                    KeyQuota.waitForRoom()
                    try turn()
                }
                #expect(least() == before)
                try home.remove()
            }
        }

        @Test(
            "A lock takes the keys away though nothing is left of what a user may have",
            .enabled(if: geteuid() == 0, "other tests use this uid's; root can become another one"))
        func fullQuota() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let keybag = try Keybag.create(
                    at: home.appending("bag"), passcode: secret("x"), iterations: 1000,
                    deviceKey: home.appending("device-key"))
                for room in 0...8 {
                    KeyQuota.waitForRoom()
                    try keybag.unlock(passcode: secret("x"))
                    let padding = KeyQuota.fill(leaving: room)
                    defer { KeyQuota.free(padding) }
                    try keybag.lock()
                    #expect(try keybag.state() == .locked)
                }
                try keybag.evictEverything()
                try home.remove()
            }
        }

        @Test("A keybag made and used by a relative path is remembered by an absolute one")
        func relativePath() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                #expect(chdir(home.string) == 0)
                let keybag = try Keybag.create(at: "bag", passcode: secret("x"), iterations: 1000)
                defer { try? keybag.evictEverything() }
                try keybag.unlock(passcode: secret("x"))
                #expect(chdir("/") == 0)
                #expect(try Keybag.remembered(keybag.uuid).directory == home.appending("bag"))
                try keybag.lock()
                #expect(try Keybag.remembered(keybag.uuid).state() == .locked)
                try home.remove()
            }
        }

        @Test("A registry that cannot be written keeps nobody from unlocking")
        func notRemembered() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bag = try TestKeybag()
                try bag.forget()
                try home.appending("file").overwrite([])
                setenv("XDG_STATE_HOME", home.appending("file").string, 1)
                try bag.unlock()
                #expect(try bag.keybag.state() == .unlocked)
                #expect(bag.warnings.unusual.map(\.caseName) == ["notRemembered"])
                try home.remove()
            }
        }

        @Test("Everything works in a fresh session keyring, which does not possess the user keyring")
        func freshSession() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                // No await from here on: keyrings are per thread.
                #expect(keyctl_join_session_keyring(nil) >= 0)
                let bag = try TestKeybag()
                let first = try bag.plant(.firstUnlock, [1], permissions: nil)
                var byte: UInt8 = 0
                #expect(throws: Errno.permissionDenied, "a half-made key is nobody's to read here") {
                    try withUnsafeMutableBytes(of: &byte) { _ = try first.read(into: $0) }
                }
                try bag.unlock()
                #expect(try bag.keybag.state() == .unlocked)
                let id = try bag.keyID(.complete)
                #expect(id != nil)

                _ = try bag.keybag.armLock(seconds: 1000)
                #expect(bag.timeoutColumn(.unlocked) != "perm")
                #expect(try bag.keybag.cancelArmedLock())
                #expect(bag.timeoutColumn(.unlocked) == "perm")
                let armed = try #require(try bag.keybag.armLock(seconds: 1000))
                #expect(try bag.keybag.finishLock(armed))
                #expect(try bag.keybag.state() == .locked)

                try bag.unlock(forSeconds: 1000)
                #expect(try bag.keyID(.complete) == id)
                try bag.changePasscode(to: "new")
                try bag.keybag.lock()
                #expect(try bag.keybag.state() == .locked)
                try bag.plant(.unlocked, [1], permissions: nil)
                try bag.keybag.lock()
                #expect(bag.ringContents == [2])
                try bag.keybag.evictEverything()
                #expect(bag.ringContents == [])
                try home.remove()
            }
        }

        @Test("Creating is no different under another umask")
        func umask() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                Glibc.umask(0)
                let bag = try TestKeybag(state: .unlocked)
                #expect(try bag.directory.mode() == 0o700)
                for name in try bag.directory.names() { #expect(try bag.file(name).mode() == 0o600, "\(name)") }
                #expect(try bag.deviceKey.mode() == 0o600)
                #expect(try Locations.registry.mode() == 0o700)
                try home.remove()
            }
        }
    }
#else
    @Test(.disabled("exit tests need Swift 6.3"))
    func keybagProcessTests() {}
#endif
