import Glibc
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// However somebody has got at a keybag: a lock and an unlock finish a class change that died half way.
@Suite struct LockFollowUpTests {
    /// The keybag of a bed, got at in one of the ways that need no other keybag.
    enum Way: CaseIterable {
        case opened, remembered, createdForTests, restored

        func keybag(of bed: FileTestBed) throws -> Keybag {
            switch self {
            case .opened: return try Keybag(at: bed.keybag.directory)
            case .remembered: return try Keybag.remembered(bed.keybag.uuid)
            case .createdForTests:
                let new = bed.path("keybag")
                return try Keybag.create(
                    at: new, passcode: secret(TestKeybag.passcode), iterations: TestKeybag.iterations,
                    deviceKey: bed.bag.deviceKey)
            case .restored:
                _ = try bed.bag.makeRecoveryCode()
                let export = bed.bag.scratchPath.appending("export")
                try bed.keybag.export(to: export)
                for copy in 0...1 { try bed.bag.file("keybag.\(copy)").overwrite([1, 2, 3]) }
                return try Keybag.restore(at: bed.bag.directory, fromExport: export)
            }
        }
    }

    /// Locks with a change left unfinished, and unlocks with another one.
    private func expectFinished(_ keybag: Keybag, _ passcode: String, in directory: FilePath) throws {
        defer { try? keybag.ring.evict(everything: true) }
        try keybag.unlock(passcode: secret(passcode))
        let path = directory.appending("locked")
        try keybag.leaveChangeUnfinished(at: path)
        #expect(try path.wraps().count == 2)
        try keybag.lock()
        #expect(try path.wraps().count == 1)

        try keybag.unlock(passcode: secret(passcode))
        let other = directory.appending("unlocked")
        try keybag.leaveChangeUnfinished(at: other)
        #expect(try other.wraps().count == 2)
        try keybag.unlock(passcode: secret(passcode))
        #expect(try other.wraps().count == 1)
    }

    @Test(arguments: Way.allCases) func anOpenedKeybag(way: Way) throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        try expectFinished(way.keybag(of: bed), TestKeybag.passcode, in: bed.directory)
    }

    /// As an application makes one, with the iterations of this machine.
    @Test(arguments: [false, true]) func aNewKeybag(hasRecoveryCode: Bool) throws {
        let bed = try FileTestBed(state: .beforeFirstUnlock)
        let new = bed.path("keybag")
        let keybag =
            if hasRecoveryCode {
                try Keybag.create(at: new, passcode: secret("p"), recoveryCode: RecoveryCode.random())
            } else {
                try Keybag.create(at: new, passcode: secret("p"))
            }
        try expectFinished(keybag, "p", in: bed.directory)
    }

    @Test func aLockByName() throws {
        let bed = try FileTestBed()
        let path = bed.path("f")
        try bed.keybag.leaveChangeUnfinished(at: path)
        try Keybag.lock(bed.keybag.uuid)
        #expect(try path.wraps().count == 1)
        #expect(try bed.keybag.state() == .locked)
    }
}

// What depends on the whole process: its environment, its uid. Each test runs in a child of its own.
#if compiler(>=6.3)
    @Suite struct LockFollowUpProcessTests {
        @Test func theUsersKeybag() async {
            await #expect(processExitsWith: .success) {
                let bed = try FileTestBed()
                setenv("PROTECTFS_KEYBAG", bed.keybag.directory.string, 1)
                let keybag = try Keybag.user
                #expect(keybag.uuid == bed.keybag.uuid)
                let path = bed.path("f")
                try keybag.leaveChangeUnfinished(at: path)
                try keybag.lock()
                #expect(try path.wraps().count == 1)
            }
        }

        @Test(
            .enabled(if: geteuid() == 0, "it would lock the keybags of whoever runs it; root can become another uid"))
        func aLockOfAll() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bed = try FileTestBed()
                let path = bed.path("f")
                try bed.keybag.leaveChangeUnfinished(at: path)
                #expect(try Keybag.lockAll() == [bed.keybag.uuid])
                #expect(try path.wraps().count == 1)
                try home.remove()
            }
        }
    }
#endif
