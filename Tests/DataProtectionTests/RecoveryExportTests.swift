import Dispatch
import ProtectionFormat
import ProtectionKeys
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection

@Suite("A keybag exported and restored")
struct RecoveryExportTests {
    /// A keybag with a recovery code, and its export.
    private final class Bed {
        let bag: TestKeybag
        let code: String
        let export: FilePath

        init() throws {
            bag = try TestKeybag()
            code = try bag.makeRecoveryCode().shown()
            export = bag.scratchPath.appending("export")
            try bag.keybag.export(to: export)
        }

        func damage(_ copies: [Int] = [0, 1]) throws {
            for copy in copies { try bag.file("keybag.\(copy)").overwrite([UInt8(copy), 2, 3]) }
        }

        func restore(at directory: FilePath? = nil) throws -> Keybag {
            try Keybag.restore(
                at: directory ?? bag.directory, fromExport: export, warn: bag.warnings.append)
        }
    }

    @Test("Holds the copy in force, and nobody else may read it")
    func contents() throws {
        let bed = try Bed()
        #expect(try RecoveryExport(decoding: bed.export.contents()).copy == bed.bag.file("keybag.0").contents())
        #expect(try bed.export.mode() == 0o600)
        #expect(try bed.bag.scratchPath.names() == ["device-key", "export", "keybag"])
    }

    @Test("Is not made while there is no recovery code")
    func withoutCode() throws {
        let bag = try TestKeybag()
        let path = bag.scratchPath.appending("export")
        expectError("noRecoveryCode") { try bag.keybag.export(to: path) }
        #expect(!OwnDirectory.exists(path))
    }

    @Test("Takes no file's place unless told to")
    func existing() throws {
        let bed = try Bed()
        try bed.export.overwrite([1])
        #expect(expectError("exists") { try bed.bag.keybag.export(to: bed.export) } == .exists(bed.export))
        #expect(try bed.export.contents() == [1])
        #expect(throws: DataProtectionError.exists(bed.export)) {
            try AtomicReplace.write([2], to: bed.export, through: bed.bag.scratchPath.appending("t")) {
                temporary, path throws(DataProtectionError) in try AtomicReplace.publishAsNew(temporary, path)
            }
        }
        #expect(try bed.export.contents() == [1], "not even one that has just appeared")
        try bed.bag.keybag.export(to: bed.export, replacing: true)
        #expect(try RecoveryExport(decoding: bed.export.contents()).keybag == bed.bag.keybag.uuid)
        #expect(try bed.bag.scratchPath.names() == ["device-key", "export", "keybag"])
    }

    @Test("Several at once into one directory: each is whole, and of those that want one name one gets it")
    func concurrent() throws {
        let bed = try Bed()
        let (keybag, directory) = (bed.bag.keybag, bed.bag.scratchPath)
        let outcomes = Mutex<[String]>([])
        DispatchQueue.concurrentPerform(iterations: 16) { number in
            let path = directory.appending(number < 8 ? "own-\(number)" : "shared")
            do throws(DataProtectionError) {
                try keybag.export(to: path)
                outcomes.withLock { $0.append("written") }
            } catch {
                outcomes.withLock { $0.append(error == .exists(path) ? "exists" : "\(error)") }
            }
        }
        let expected = Array(repeating: "exists", count: 7) + Array(repeating: "written", count: 9)
        #expect(outcomes.withLock { $0.sorted() } == expected)
        let exports = (0..<8).map { "own-\($0)" } + ["shared"]
        #expect(try bed.bag.scratchPath.names() == (["device-key", "export", "keybag"] + exports).sorted())
        for name in exports {
            let text = try bed.bag.scratchPath.appending(name).contents()
            #expect(try RecoveryExport(decoding: text).keybag == bed.bag.keybag.uuid)
        }
    }

    @Test("Both copies damaged: restored, the damaged ones kept, and the passcode opens")
    func bothDamaged() throws {
        let bed = try Bed()
        let attempts = try bed.bag.file("attempts").contents()
        try bed.damage()
        expectError("keybagDamaged") { _ = try bed.bag.reopened() }
        let keybag = try bed.restore()
        #expect(keybag.uuid == bed.bag.keybag.uuid)
        #expect(
            bed.bag.warnings.unusual == [0, 1].map { .damagedCopyKept(bed.bag.file("keybag.\($0).damaged")) })
        for copy in [0, 1] as [UInt8] {
            #expect(try bed.bag.file("keybag.\(copy).damaged").contents() == [copy, 2, 3])
        }
        #expect(try bed.bag.file("attempts").contents() == attempts, "wrong passcodes go on counting")
        try bed.bag.unlock()
        // And again, beside what was kept then.
        try bed.damage()
        _ = try bed.restore()
        #expect(try bed.bag.file("keybag.1.damaged-2").contents() == [1, 2, 3])
        try bed.bag.unlock()
    }

    @Test("The directory lost: made anew, and the code opens it with another device key")
    func directoryLost() throws {
        let bed = try Bed()
        try bed.bag.directory.remove()
        try bed.bag.deviceKey.remove()
        let keybag = try bed.restore()
        #expect(try bed.bag.directory.names() == ["attempts", "keybag.0", "keybag.1", "transition"])
        #expect(try bed.bag.directory.mode() == 0o700)
        expectError("otherDevice") { try bed.bag.unlock() }
        _ = try bed.bag.recover(with: recoveryCode(bed.code))
        try keybag.unlock(passcode: secret("new"))
        #expect(try Keybag.remembered(keybag.uuid).directory == bed.bag.directory)
    }

    @Test("An empty directory, and one with other files, get the keybag", arguments: [[], ["other"]])
    func existingDirectory(names: [String]) throws {
        let bed = try Bed()
        let directory = bed.bag.scratchPath.appending("elsewhere")
        try OwnDirectory.make(directory)
        for name in names { try directory.appending(name).overwrite([1]) }
        let keybag = try bed.restore(at: directory)
        #expect(try directory.names() == (["attempts", "keybag.0", "keybag.1", "transition"] + names).sorted())
        try keybag.unlock(passcode: secret(TestKeybag.passcode))
    }

    @Test("Nothing is restored over a keybag that opens, with one damaged copy neither", arguments: [nil, 0, 1])
    func intact(damaged: Int?) throws {
        let bed = try Bed()
        if let damaged { try bed.damage([damaged]) }
        let before = try bed.bag.directory.names().map { try bed.bag.file($0).contents() }
        let uuid = bed.bag.keybag.uuid
        let same = expectError("keybagIntact") { _ = try bed.restore() }
        #expect(same == .because(KeybagFailure.keybagIntact(bed.bag.directory, uuid, exported: uuid)))
        let other = try TestKeybag()
        let foreign = expectError("keybagIntact") { _ = try bed.restore(at: other.directory) }
        #expect(foreign == .because(KeybagFailure.keybagIntact(other.directory, other.keybag.uuid, exported: uuid)))
        #expect(try bed.bag.directory.names().map { try bed.bag.file($0).contents() } == before)
    }

    @Test("An export that is damaged, none, no file, or endless is refused, and nothing is made")
    func refused() throws {
        let bed = try Bed()
        let directory = bed.bag.scratchPath.appending("new")
        let good = try bed.export.contents()
        for (name, bytes) in [
            ("flipped", good.map { $0 == UInt8(ascii: "A") ? UInt8(ascii: "B") : $0 }),
            ("cut", Array(good.dropLast(50))), ("none", Array("hello".utf8)), ("empty", []),
            ("endless", [UInt8](repeating: 10, count: 1_000_000)),
        ] {
            try bed.export.overwrite(bytes)
            expectError("damaged", "\(name)") { _ = try bed.restore(at: directory) }
        }
        try bed.export.remove()
        try bed.export.makeFIFO()
        expectError("notRegularFile") { _ = try bed.restore(at: directory) }
        try bed.export.remove()
        expectError("system") { _ = try bed.restore(at: directory) }
        #expect(!OwnDirectory.exists(directory))
    }

    @Test("An older export opens with the passcode and the code of its day")
    func older() throws {
        let bed = try Bed()
        try bed.bag.unlock()
        try bed.bag.keybag.changePasscode(from: secret(TestKeybag.passcode), to: secret("later"), iterations: 1000)
        _ = try bed.bag.makeRecoveryCode(passcode: "later")
        try bed.damage()
        let keybag = try bed.restore()
        _ = try keybag.open(recoveryCode: recoveryCode(bed.code))
        try keybag.unlock(passcode: secret(TestKeybag.passcode))
    }

    @Test("The next restore finishes a restore that was killed")
    func killed() throws {
        let bed = try Bed()
        try bed.damage()
        // The damaged copies are aside, and one good one is half written.
        for copy in [0, 1] {
            try AtomicReplace.rename(bed.bag.file("keybag.\(copy)"), to: bed.bag.file("keybag.\(copy).damaged"))
        }
        try bed.bag.file("keybag.new").overwrite([1, 2])
        _ = try bed.restore()
        try bed.bag.unlock()
        #expect(try bed.bag.file("keybag.0").contents() == bed.bag.file("keybag.1").contents())
        #expect(!OwnDirectory.exists(bed.bag.file("keybag.new")))
    }
}
