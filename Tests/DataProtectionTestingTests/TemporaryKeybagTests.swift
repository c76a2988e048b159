import CRefusedKeyring
import DataProtectionTesting
import Foundation
import KernelKeyring
import SystemPackage
import TestScratch
import Testing

@Suite("A temporary keybag")
struct TemporaryKeybagTests {
    init() { _ = isolatedHome }

    /// The three classes whose files a lock or a restart closes, and D.
    private static let classes: [Data.WritingOptions] = [
        .completeFileProtection, .completeFileProtectionUnlessOpen,
        .completeFileProtectionUntilFirstUserAuthentication, .noFileProtection,
    ]

    /// What a unit test of an application does.
    private static func useEverything(_ temporary: TemporaryKeybag) throws {
        let keybag = temporary.keybag
        #expect(try keybag.state() == .unlocked)
        func file(_ index: Int) -> URL { URL(fileURLWithPath: temporary.directory.appending("\(index)").string) }
        func opens(_ index: Int) -> Bool {
            (try? Data(contentsOf: file(index), protectedBy: keybag)) == Data("text \(index)".utf8)
        }
        for (index, options) in classes.enumerated() {
            try Data("text \(index)".utf8).write(to: file(index), options: options, protectedBy: keybag)
        }
        #expect(classes.indices.map(opens) == [true, true, true, true])

        try temporary.lock()
        #expect(try keybag.state() == .locked)
        #expect(classes.indices.map(opens) == [false, false, true, true])
        let refusal = #expect(throws: CocoaError.self) { try Data(contentsOf: file(0), protectedBy: keybag) }
        #expect(refusal?.code == .fileReadNoPermission)

        try temporary.unlock()
        #expect(classes.indices.map(opens) == [true, true, true, true])

        try temporary.restart()
        #expect(try keybag.state() == .beforeFirstUnlock)
        #expect(classes.indices.map(opens) == [false, false, false, true])
        try temporary.unlock()
        #expect(classes.indices.map(opens) == [true, true, true, true])
    }

    /// What the user keyring holds of a keybag.
    private static func keys(of keybag: KeybagUUID) throws -> [String] {
        try RingKey.descriptions(withPrefix: "protectfs").filter { $0.contains("\(keybag)") }
    }

    @Test("Files of each class open and close as the lock state says, again and again")
    func lockStates() throws {
        let start = ContinuousClock.now
        let temporary = try TemporaryKeybag()
        try Self.useEverything(temporary)
        print("TemporaryKeybagTests: one test of an application took \(ContinuousClock.now - start)")
        try temporary.remove()
    }

    @Test(
        "It begins in the state that is asked for",
        arguments: [ProtectionState.beforeFirstUnlock, .unlocked, .locked])
    func firstState(state: ProtectionState) throws {
        let found = try withTemporaryKeybag(in: state) { try $0.keybag.state() }
        #expect(found == state)
    }

    @Test("An open handle of class complete reads nothing after a lock, and reads again after an unlock")
    func openHandle() throws {
        try withTemporaryKeybag { temporary in
            let path = temporary.directory.appending("diary")
            let url = URL(fileURLWithPath: path.string)
            try Data("dear diary".utf8).write(to: url, options: .completeFileProtection, protectedBy: temporary.keybag)
            let handle = try ProtectedFile.open(path, keybag: temporary.keybag)
            func start() throws -> [UInt8] {
                var bytes = [UInt8](repeating: 0, count: 4)
                _ = try bytes.withUnsafeMutableBytes { try handle.read(into: $0, at: 0) }
                return bytes
            }
            #expect(try start() == Array("dear".utf8))
            try temporary.lock()
            #expect(throws: DataProtectionError.self) { try start() }
            try temporary.unlock()
            #expect(try start() == Array("dear".utf8))
        }
    }

    @Test("The example of docs/guide/PORTING-FROM-IOS.md does what it says")
    func documentedExample() throws {
        try withTemporaryKeybag { temporary in
            let diary = URL(fileURLWithPath: temporary.directory.appending("diary").string)
            let (text, keybag) = (Data("dear diary".utf8), temporary.keybag)
            try text.write(to: diary, options: .completeFileProtection, protectedBy: keybag)
            try temporary.lock()
            #expect(throws: CocoaError.self) { try Data(contentsOf: diary, protectedBy: keybag) }
            try temporary.unlock()
            #expect(try Data(contentsOf: diary, protectedBy: keybag) == text)
        }
    }

    @Test("Of two side by side, each has its own lock state, and neither opens the other's files")
    func sideBySide() throws {
        try withTemporaryKeybag { one in
            try withTemporaryKeybag { other in
                let file = URL(fileURLWithPath: one.directory.appending("file").string)
                try Data("text".utf8).write(to: file, options: .completeFileProtection, protectedBy: one.keybag)
                #expect(throws: (any Error).self) { try Data(contentsOf: file, protectedBy: other.keybag) }
                try other.lock()
                #expect(try one.keybag.state() == .unlocked)
                #expect(try other.keybag.state() == .locked)
                #expect(try Data(contentsOf: file, protectedBy: one.keybag) == Data("text".utf8))
            }
        }
    }

    @Test("Nothing of it is left: no file, no key in the user keyring, no entry in the registry")
    func leavesNothing() async throws {
        var seen: [(home: FilePath, uuid: KeybagUUID)] = []
        func note(_ temporary: TemporaryKeybag) {
            seen.append((temporary.directory.removingLastComponent(), temporary.keybag.uuid))
        }
        try withTemporaryKeybag { temporary in
            note(temporary)
            try Self.useEverything(temporary)
            #expect(try Self.keys(of: temporary.keybag.uuid) == [])
        }
        try await withTemporaryKeybag { temporary in
            note(temporary)
            await Task.yield()
        }
        #expect(throws: CancellationError.self) {
            try withTemporaryKeybag { temporary in
                note(temporary)
                throw CancellationError()
            }
        }
        do { note(try TemporaryKeybag(in: .locked)) }  // its end removes it
        #expect(seen.count == 4)
        for (home, uuid) in seen {
            #expect(!FileManager.default.fileExists(atPath: home.string))
            #expect(try Self.keys(of: uuid) == [])
            #expect(throws: DataProtectionError.self) { try Keybag.remembered(uuid) }
        }
    }

    @Test("After it is removed, its keybag opens nothing and cannot be unlocked")
    func removed() throws {
        let temporary = try TemporaryKeybag()
        let keybag = temporary.keybag
        try temporary.remove()
        #expect((try? keybag.state()) != .unlocked)
        #expect(throws: DataProtectionError.self) { try temporary.unlock() }
        try temporary.remove()
    }

    @Test("The same directory opened as an ordinary keybag does not find the keys")
    func openedAgain() throws {
        try withTemporaryKeybag { temporary in
            let again = try Keybag(at: temporary.keybag.directory)
            #expect(again.uuid == temporary.keybag.uuid)
            #expect(try again.state() == .beforeFirstUnlock)
            #expect(throws: DataProtectionError.self) { try TemporaryKeys(of: again).load() }
            #expect(try Self.keys(of: again.uuid) == [])
        }
    }

    @Test("No passcode opens it: it is refused before anything is derived or counted")
    func passcode() throws {
        try withTemporaryKeybag(in: .locked) { temporary in
            let passcode = SecretBytes(byteCount: 4) { $0.copyBytes(from: Array("1234".utf8)) }
            let error = #expect(throws: DataProtectionError.self) {
                try temporary.keybag.unlock(passcode: passcode)
            }
            let isPasscodeUnusable = if case .because(KeybagFailure.passcodeUnusable) = error { true } else { false }
            #expect(isPasscodeUnusable, "\(String(describing: error))")
            let keys = try Self.keys(of: temporary.keybag.uuid)
            #expect(keys == [])
        }
    }

    @Test("Keys that were unlocked for a time expire")
    func expiry() async throws {
        try await withTemporaryKeybag(in: .locked) { temporary in
            try temporary.unlock(for: .seconds(1))
            for _ in 0..<600 where try temporary.keybag.state() == .unlocked {
                try await Task.sleep(for: .milliseconds(100))
            }
            #expect(try temporary.keybag.state() == .locked)
        }
    }

    @Test("All of it runs where a container's seccomp filter refuses the kernel keyring")
    func refusedKeyring() async {
        await #expect(processExitsWith: .success) {
            _ = isolatedHome
            try #require(protectfs_refuse_keyring() == 0)
            #expect(throws: Errno.notPermitted) { try KeySerial.userKeyring.search("protectfs:none") }
            let start = ContinuousClock.now
            let temporary = try TemporaryKeybag()
            try Self.useEverything(temporary)
            try temporary.remove()
            print("TemporaryKeybagTests: without a kernel keyring it took \(ContinuousClock.now - start)")
            #expect(!FileManager.default.fileExists(atPath: temporary.directory.removingLastComponent().string))
        }
    }
}
