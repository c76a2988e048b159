import Foundation
import KernelKeyring
import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("A new keybag")
struct KeybagTests {
    @Test("Is four files that only their owner reads")
    func files() throws {
        let bag = try TestKeybag()
        #expect(try bag.directory.names() == ["attempts", "keybag.0", "keybag.1", "transition"])
        #expect(try bag.directory.mode() == 0o700)
        for name in try bag.directory.names() { #expect(try bag.file(name).mode() == 0o600, "\(name)") }
        #expect(try bag.file("keybag.0").contents() == bag.file("keybag.1").contents())
        #expect(try bag.file("attempts").contents().count == 1024)
        #expect(try bag.file("transition").contents().count == 64)
        #expect(try bag.deviceKey.contents().count == 32)
        #expect(try bag.deviceKey.mode() == 0o600)
        #expect(try bag.scratchPath.names() == ["device-key", "keybag"], "nothing half-made is left")
    }

    @Test("Is what FORMAT.md says: one slot, four active keys of files and two of secrets, generation 1")
    func copy() throws {
        let bag = try TestKeybag()
        let copy = try KeybagCopy(decoding: try bag.file("keybag.0").contents())
        #expect(copy.uuid == bag.keybag.uuid)
        #expect(copy.sequence == 1)
        #expect(copy.devicePath == Array(bag.deviceKey.string.utf8))
        #expect(copy.slots.map(\.kind) == [.passcode])
        #expect(copy.slots.map(\.iterations) == [1000])
        #expect(copy.entries.map { [$0.kind, $0.rawClass] } == [[0, 1], [0, 2], [0, 3], [0, 4], [1, 1], [1, 3]])
        #expect(copy.entries.allSatisfy { $0.state == .active && $0.generation == 1 })
        #expect(Set(copy.entries.map(\.id)).count == 6)
        #expect(Set(copy.entries.map(\.wrapped)).count == 6)
    }

    @Test("Loads nothing into the ring")
    func loadsNothing() throws {
        let bag = try TestKeybag()
        #expect(bag.ringContents == [])
        #expect(try bag.keybag.state() == .beforeFirstUnlock)
        #expect(!bag.keybag.isProtectedDataAvailable)
    }

    @Test("Has nothing in common with another one of the same passcode and device")
    func twoKeybags() throws {
        let bag = try TestKeybag()
        let second = bag.scratchPath.appending("second")
        let other = try Keybag.create(
            at: second, passcode: secret(TestKeybag.passcode), iterations: 1000, deviceKey: bag.deviceKey)
        let copies = try [bag.directory, second].map { directory in
            try KeybagCopy(decoding: try directory.appending("keybag.0").contents())
        }
        #expect(copies[0].uuid != copies[1].uuid)
        #expect(copies[0].deviceID != copies[1].deviceID)
        #expect(copies[0].slots[0].salt != copies[1].slots[0].salt)
        #expect(copies[0].slots[0].wrapped != copies[1].slots[0].wrapped)
        #expect(Set((copies[0].entries + copies[1].entries).map(\.id)).count == 12)

        try bag.unlock()
        #expect(try other.state() == .beforeFirstUnlock)
    }

    @Test("Does not take the place of one that is there")
    func exists() throws {
        let bag = try TestKeybag()
        let before = try bag.file("keybag.0").contents()
        expectError("keybagExists") { try create(at: bag.directory, bag) }
        expectError("keybagExists") { try Keybag.create(at: bag.directory, passcode: secret("x")) }
        #expect(try bag.file("keybag.0").contents() == before)
        #expect(try bag.scratchPath.names() == ["device-key", "keybag"])
    }

    @Test("Does not take the place of anything else, but fills an empty directory")
    func otherThings() throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("place")
        try place.overwrite([1])
        expectError("exists") { try create(at: place, bag) }
        #expect(try place.contents() == [1])

        try place.replaceByDirectory()
        try place.appending("letter").overwrite([1])
        expectError("exists") { try create(at: place, bag) }
        #expect(try place.names() == ["letter"])

        try place.appending("letter").remove()
        try create(at: place, bag)
        #expect(try Keybag(at: place).state() == .beforeFirstUnlock)
    }

    @Test("Makes the directories that are missing above it")
    func parents() throws {
        let bag = try TestKeybag()
        let deep = bag.scratchPath.appending("a/b/c")
        try create(at: deep, bag)
        #expect(try deep.names().count == 4)
        #expect(try bag.scratchPath.appending("a").mode() == 0o700)
    }

    @Test("Of many made at the same time in one place there is one")
    func concurrently() async throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("place")
        let made = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    do {
                        try create(at: place, bag)
                        return true
                    } catch {
                        #expect((error as? DataProtectionError)?.caseName == "keybagExists")
                        return false
                    }
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(made == 1)
        #expect(try bag.scratchPath.names() == ["device-key", "keybag", "place"])
        #expect(try Keybag(at: place).state() == .beforeFirstUnlock)
    }

    @Test("A killed process's leftover of the same directory is removed; a directory still being made stays")
    func leftovers() throws {
        let bag = try TestKeybag()
        let left = bag.scratchPath.appending("place").beside(unfinished: "0")
        try OwnDirectory.make(left)
        try left.appending("keybag.0").overwrite([1])
        let unfinished = try UnfinishedDirectory(for: bag.scratchPath.appending("other"))
        try create(at: bag.scratchPath.appending("place"), bag)
        try create(at: bag.scratchPath.appending("other"), bag)
        let names = try bag.scratchPath.names()
        #expect(names == [".other.protectfs-unfinished-0", "device-key", "keybag", "other", "place"])
        withExtendedLifetime(unfinished) {}
    }

    @Test(
        "A directory that may have got the hidden name by a rename stays: another mode, or others can rename there",
        arguments: [(0o755, 0o700), (0o700, 0o770)] as [(mode_t, mode_t)])
    func plantedLeftover(mode: mode_t, outerMode: mode_t) throws {
        let bag = try TestKeybag()
        let outer = bag.scratchPath.appending("outer")
        let planted = outer.appending("place").beside(unfinished: "0")
        try OwnDirectory.make(planted)
        try planted.appending("file").overwrite([1])
        try planted.setMode(mode)
        try outer.setMode(outerMode)
        try create(at: outer.appending("place"), bag)
        #expect(try planted.names() == ["file"])
        #expect(try outer.names() == [".place.protectfs-unfinished-0", "place"])
    }

    @Test("No keybag is made where anybody can exchange it, nor below such a directory")
    func exchangeable() throws {
        let bag = try TestKeybag()
        let outer = bag.scratchPath.appending("outer")
        try OwnDirectory.make(outer.appending("inner"))
        try outer.setMode(0o777)
        for place in [outer, outer.appending("inner"), outer.appending("missing/below")] {
            let error = #expect(throws: DataProtectionError.self) { try OwnDirectory.requireUnswappable(place) }
            #expect(error == .keybagUnsafe(outer, reason: "others may write to it (mode 777)"))
        }
        #expect(try outer.names() == ["inner"])
    }

    @Test(
        "Nor is one made where a group can exchange it, unless that is the user's own",
        .enabled(if: geteuid() == 0, "only root can give a directory to any group"))
    func exchangeableByGroup() throws {
        let bag = try TestKeybag()
        let outer = bag.scratchPath.appending("outer")
        try OwnDirectory.make(outer)
        try outer.setMode(0o2775)
        try OwnDirectory.requireUnswappable(outer)
        #expect(chown(outer.string, 0, 2_000_000_001) == 0)
        try outer.setMode(0o2775)
        let error = #expect(throws: DataProtectionError.self) { try OwnDirectory.requireUnswappable(outer) }
        #expect(error == .keybagUnsafe(outer, reason: "others may write to it (mode 2775)"))
        try outer.setMode(0o3775)
        try OwnDirectory.requireUnswappable(outer)
        try outer.setMode(0o700)
        #expect(chown(outer.string, 65534, 0) == 0)
        let foreign = #expect(throws: DataProtectionError.self) { try OwnDirectory.requireUnswappable(outer) }
        let isNobodys = "it belongs to uid 65534, who could exchange what is in it"
        #expect(foreign == .keybagUnsafe(outer, reason: isNobodys), "where all uids are known it is a user's")
    }

    @Test("A directory that took the name of one that was just made is neither filled nor emptied")
    func exchangedMeanwhile() throws {
        let bag = try TestKeybag()
        let outer = bag.scratchPath.appending("outer")
        for name in ["full", "empty"] { try OwnDirectory.make(outer.appending(name)) }
        try outer.appending("full/thesis").overwrite([1])
        let parent = try LowerDirectory(outer)
        #expect(try parent.directory("full").isAsMade(in: parent), "where nobody else can rename")
        try outer.setMode(0o770)
        #expect(try !parent.directory("full").isAsMade(in: parent))
        #expect(try parent.directory("empty").isAsMade(in: parent))
        #expect(try parent.subdirectory("new").isNew && !parent.subdirectory("new").isNew)
        try outer.appending("empty").setMode(0o722)
        #expect(try !parent.directory("empty").isAsMade(in: parent), "others can write to it")
    }

    @Test("Nor is a keybag made through a link that somebody else can exchange")
    func exchangeableLink() throws {
        let bag = try TestKeybag()
        let outer = bag.scratchPath.appending("outer")
        try OwnDirectory.make(outer)
        try OwnDirectory.make(bag.scratchPath.appending("home"))
        try outer.appending("link").makeSymbolicLink(to: bag.scratchPath.appending("home"))
        try OwnDirectory.requireUnswappable(outer.appending("link"))
        try outer.setMode(0o777)
        let error = #expect(throws: DataProtectionError.self) {
            try OwnDirectory.requireUnswappable(outer.appending("link/missing"))
        }
        #expect(error == .keybagUnsafe(outer, reason: "others may write to it (mode 777)"))
    }

    @Test("In a sticky directory, where others cannot rename it, a killed process's leftover is removed")
    func leftoverInStickyDirectory() throws {
        let bag = try TestKeybag()
        let outer = bag.scratchPath.appending("outer")
        try OwnDirectory.make(outer.appending("place").beside(unfinished: "0"))
        try outer.setMode(0o1777)
        try create(at: outer.appending("place"), bag)
        #expect(try outer.names() == ["place"])
    }

    @Test(
        "Somebody else's directory under the hidden name stays, and is not followed anywhere",
        .enabled(if: geteuid() == 0, "only root can make a directory that belongs to somebody else"))
    func foreignLeftover() throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("place")
        let left = place.beside(unfinished: "0")
        try FileManager.default.createDirectory(atPath: left.string, withIntermediateDirectories: false)
        try left.appending("theirs").overwrite([1])
        #expect(chown(left.string, 65534, 65534) == 0)
        try create(at: place, bag)
        #expect(try left.names() == ["theirs"])
        #expect(try bag.scratchPath.names() == [".place.protectfs-unfinished-0", "device-key", "keybag", "place"])
    }

    @Test("Removing an unfinished directory spares another one made under the same hidden name since")
    func withdrawn() throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("place")
        let unfinished = try UnfinishedDirectory(for: place)
        try unfinished.path.appending("ours").overwrite([1])
        try AtomicReplace.rename(unfinished.path, to: place)
        let other = try UnfinishedDirectory(for: place)
        try other.path.appending("theirs").overwrite([2])
        unfinished.remove()
        #expect(try other.path.names() == ["theirs"])
        #expect(try place.names() == ["ours"])
    }

    @Test("Needs a passcode of 1 to 1,024 bytes")
    func passcodeLength() throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("place")
        for bytes in [[], [UInt8](repeating: 7, count: 1025)] {
            expectError("passcodeUnusable") {
                try Keybag.create(at: place, passcode: secret(bytes), iterations: 1000, deviceKey: bag.deviceKey)
            }
            expectError("passcodeUnusable") { try Keybag.create(at: place, passcode: secret(bytes)) }
            expectError("passcodeUnusable") { try bag.keybag.unlock(passcode: secret(bytes)) }
        }
        #expect(!OwnDirectory.exists(place))
    }

    @Test(
        "Takes the passcode's bytes as they are",
        arguments: [[0], [0xFF, 0xFE, 0, 10], [UInt8](repeating: 7, count: 1024)])
    func passcodeBytes(bytes: [UInt8]) throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("place")
        let keybag = try Keybag.create(
            at: place, passcode: secret(bytes), iterations: 1000, deviceKey: bag.deviceKey)
        defer { try? keybag.evictEverything() }
        expectError("wrongPasscode") { try keybag.unlock(passcode: secret(bytes.dropLast() + [bytes.last! ^ 1])) }
        try keybag.unlock(passcode: secret(bytes))
        #expect(try keybag.state() == .unlocked)
    }

    @Test("Written without a given count costs 600,000 iterations or more")
    func calibrated() throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("place")
        try Keybag.create(at: place, passcode: secret("x"))
        let copy = try KeybagCopy(decoding: try place.appending("keybag.0").contents())
        #expect(copy.slots[0].iterations >= 600_000)
        #expect(copy.devicePath == Array(isolatedHome.appending("state/protectfs/device-key").string.utf8))
    }

    @Test("That is not there is not found")
    func notFound() throws {
        let bag = try TestKeybag()
        expectError("keybagNotFound") { _ = try Keybag(at: bag.scratchPath.appending("nothing")) }
        expectError("keybagNotFound") { _ = try Keybag(at: bag.scratchPath) }
        expectError("keybagNotFound") { _ = try Keybag(at: bag.deviceKey) }
    }
}

@discardableResult
private func create(at place: FilePath, _ bag: TestKeybag) throws -> Keybag {
    try Keybag.create(at: place, passcode: secret("x"), iterations: 1000, deviceKey: bag.deviceKey)
}
