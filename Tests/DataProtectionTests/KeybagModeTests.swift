import Glibc
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Access to the keybag's directory")
struct KeybagModeTests {
    private static let files = ["keybag.0", "keybag.1", "attempts", "transition"]

    @Test("A directory that others may read is narrowed, with a warning", arguments: [0o755, 0o750, 0o711] as [mode_t])
    func directory(mode: mode_t) throws {
        let bag = try TestKeybag()
        try bag.directory.setMode(mode)
        _ = try bag.reopened()
        #expect(try bag.directory.mode() == 0o700)
        let octal = String(mode, radix: 8)
        #expect(bag.warnings.unusual == [.modeRepaired(bag.directory, from: octal, to: "700")])
        _ = try bag.reopened()
        #expect(bag.warnings.unusual.count == 1, "once is enough")
    }

    @Test("A file that others may read is narrowed, with a warning", arguments: files)
    func file(name: String) throws {
        let bag = try TestKeybag()
        try bag.file(name).setMode(0o644)
        _ = try bag.reopened()
        #expect(try bag.file(name).mode() == 0o600)
        #expect(bag.warnings.unusual == [.modeRepaired(bag.file(name), from: "644", to: "600")])
    }

    @Test("A link among the keybag's files is not followed: its target keeps its mode", arguments: [false, true])
    func link(toDirectory: Bool) throws {
        let bag = try TestKeybag()
        let elsewhere = bag.scratchPath.appending("elsewhere")
        if toDirectory { try OwnDirectory.make(elsewhere) } else { try elsewhere.overwrite([1]) }
        let mode: mode_t = toDirectory ? 0o755 : 0o644
        try elsewhere.setMode(mode)
        try bag.file("transition").remove()
        try bag.file("transition").makeSymbolicLink(to: elsewhere)
        _ = try? bag.reopened()
        #expect(try elsewhere.mode() == mode)
    }

    @Test("A directory that others may write to is refused", arguments: [0o770, 0o777, 0o702, 0o1777] as [mode_t])
    func writableDirectory(mode: mode_t) throws {
        let bag = try TestKeybag()
        try bag.directory.setMode(mode)
        expectError("keybagUnsafe") { _ = try bag.reopened() }
        #expect(try bag.directory.mode() == mode, "what somebody may have put there is for the user to look at")
    }

    @Test("A file that others may write to is refused", arguments: files, [0o660, 0o602] as [mode_t])
    func writableFile(name: String, mode: mode_t) throws {
        let bag = try TestKeybag()
        try bag.file(name).setMode(mode)
        let error = expectError("keybagUnsafe") { _ = try bag.reopened() }
        guard case .keybagUnsafe(let path, _)? = error else { return }
        #expect(path == bag.file(name))
        #expect(try bag.file(name).mode() == mode)
    }

    @Test("Locking does not look at modes")
    func lock() throws {
        let bag = try TestKeybag(state: .unlocked)
        for name in Self.files { try bag.file(name).setMode(0o666) }
        try bag.directory.setMode(0o777)
        try bag.keybag.lock()
        #expect(try bag.keybag.state() == .locked)
    }

    @Test(
        "A directory or a file of another user is refused",
        .enabled(if: geteuid() == 0, "only root can give a file away"),
        arguments: [nil] + files.map(Optional.some))
    func foreignOwner(name: String?) throws {
        let bag = try TestKeybag()
        let path = name.map(bag.file) ?? bag.directory
        #expect(chown(path.string, 65_534, 65_534) == 0)
        let error = expectError("keybagUnsafe") { _ = try bag.reopened() }
        guard case .keybagUnsafe(let refused, _)? = error else { return }
        #expect(refused == path)
    }

    @Test("A repaired copy is 0600, whatever the umask or the damaged one was")
    func repairedCopy() throws {
        let bag = try TestKeybag()
        try bag.file("keybag.1").overwrite([1, 2, 3])
        try bag.file("keybag.1").setMode(0o400)
        try bag.unlock()
        #expect(try bag.file("keybag.1").mode() == 0o600)
    }
}
