import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Keybags once used")
struct KeybagRegistryTests {
    @Test("Are remembered by their UUID from the moment they are made")
    func created() throws {
        let bag = try TestKeybag()
        let found = try Keybag.remembered(bag.keybag.uuid)
        #expect(found.uuid == bag.keybag.uuid)
        #expect(found.directory == bag.directory)
        let link = Locations.registry.appending(bag.keybag.uuid.description)
        #expect(try !link.isRegularFile())
        #expect(try Locations.registry.mode() == 0o700)
    }

    @Test("Are remembered again by an unlock")
    func unlocked() throws {
        let bag = try TestKeybag()
        try bag.forget()
        expectError("keybagNotFound") { _ = try Keybag.remembered(bag.keybag.uuid) }
        try bag.unlock()
        #expect(try Keybag.remembered(bag.keybag.uuid).directory == bag.directory)
        #expect(try Keybag.remembered(bag.keybag.uuid).state() == .unlocked)
    }

    @Test("Are found where they were used last")
    func moved() throws {
        let bag = try TestKeybag()
        let place = bag.scratchPath.appending("moved")
        try AtomicReplace.rename(bag.directory, to: place)
        expectError("keybagNotFound") { _ = try Keybag.remembered(bag.keybag.uuid) }
        try Keybag(at: place).unlock(passcode: secret(TestKeybag.passcode))
        #expect(try Keybag.remembered(bag.keybag.uuid).directory == place)
    }

    @Test("Are not found when another one is in their place")
    func replaced() throws {
        let (bag, other) = (try TestKeybag(), try TestKeybag())
        try bag.directory.remove()
        try AtomicReplace.rename(other.directory, to: bag.directory)
        expectError("keybagNotFound") { _ = try Keybag.remembered(bag.keybag.uuid) }
    }

    @Test("That were never used are not found")
    func never() throws {
        let uuid = try KeybagUUID.random()
        expectError("keybagNotFound") { _ = try Keybag.remembered(uuid) }
    }

    @Test("That are damaged say so")
    func damaged() throws {
        let bag = try TestKeybag()
        for copy in [0, 1] { try bag.file("keybag.\(copy)").overwrite([1]) }
        expectError("keybagDamaged") { _ = try Keybag.remembered(bag.keybag.uuid) }
    }

    @Test("Are remembered by many at the same time without a word")
    func concurrently() async throws {
        let bag = try TestKeybag()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { for _ in 0..<20 { KeybagRegistry.note(bag.keybag) } } }
        }
        #expect(bag.warnings.unusual == [])
        #expect(try Keybag.remembered(bag.keybag.uuid).directory == bag.directory)
        let left = try Locations.registry.names().filter { $0.hasPrefix(".\(bag.keybag.uuid)") }
        #expect(left == [], "nothing half-made is left")
    }
}

extension TestKeybag {
    /// Removes the keybag's link from the registry.
    func forget() throws { try AtomicReplace.remove(Locations.registry.appending(keybag.uuid.description)) }
}
