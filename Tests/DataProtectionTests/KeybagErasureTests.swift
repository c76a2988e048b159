import Glibc
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

@Suite("Erasing a keybag")
struct KeybagErasureTests {
    private func link(of bag: TestKeybag) -> FilePath { Locations.registry.appending(bag.keybag.uuid.description) }

    @Test("Takes the keys from the ring, the files from the disk, and its link", arguments: ProtectionState.all)
    func everything(state: ProtectionState) throws {
        let bag = try TestKeybag(state: state)
        // A second name shows what becomes of the bytes.
        let witness = bag.scratchPath.appending("witness")
        #expect(Glibc.link(bag.file("keybag.0").string, witness.string) == 0)
        let erasure = try KeybagErasure(at: bag.directory)
        #expect(erasure.uuid == bag.keybag.uuid && erasure.directory == bag.directory)
        #expect(try erasure.perform() == [])
        #expect(bag.ringContents == [])
        #expect(try bag.scratchPath.names() == ["device-key", "witness"], "the device key stays")
        #expect(try witness.contents().allSatisfy { $0 == 0 })
        #expect((try? link(of: bag).stat(followTargetSymlink: false)) == nil)
        expectError("keybagNotFound") { _ = try Keybag.remembered(bag.keybag.uuid) }
        expectError("keybagNotFound") { _ = try bag.reopened() }
        expectError("keybagNotFound") { _ = try KeybagErasure(at: bag.directory) }
    }

    @Test("Takes damaged copies, those aside, and what killed processes left")
    func leftovers() throws {
        let bag = try TestKeybag(state: .unlocked)
        for name in ["keybag.0.damaged", "keybag.1.damaged-2", "keybag.new"] { try bag.file(name).overwrite([1]) }
        ExportRecord(sequence: 7).store(in: bag.directory)
        for name in ["changing", "queue"] {
            try OwnDirectory.make(bag.file(name))
            try bag.file(name).appending("1").overwrite([1])
        }
        #expect(try KeybagErasure(at: bag.directory).perform() == [])
        #expect(!OwnDirectory.exists(bag.directory))
    }

    @Test("A hole in a file stays one: a planted file of a tebibyte does not fill the disk")
    func holes() throws {
        let bag = try TestKeybag(state: .unlocked)
        // A second name shows what becomes of the bytes.
        let witness = bag.scratchPath.appending("witness")
        try bag.file("keybag.1.damaged").overwrite([UInt8](repeating: 1, count: 5000))
        let size = off_t(1) << 40
        guard truncate(bag.file("keybag.1.damaged").string, size) == 0 else {
            print("skipped: no file of a tebibyte can be made here: \(Errno(rawValue: errno))")
            return
        }
        #expect(Glibc.link(bag.file("keybag.1.damaged").string, witness.string) == 0)
        #expect(try KeybagErasure(at: bag.directory).perform() == [])
        let file = try LowerFile(regular: witness, flags: O_RDONLY)
        #expect(try file.length() == size)
        #expect(try file.status().st_blocks < 64)
        #expect(try file.bytes(at: 0, count: 5000).allSatisfy { $0 == 0 })
    }

    @Test("Leaves the files of others, and names them")
    func foreignFiles() throws {
        let bag = try TestKeybag(state: .unlocked)
        try bag.file("attempts").overwrite([1, 2, 3])
        try bag.file("letter").overwrite([4])
        let left = try KeybagErasure(at: bag.directory).perform()
        #expect(left == ["attempts", "letter"].map { bag.file($0) })
        #expect(try bag.directory.names() == ["attempts", "letter"])
        #expect(try bag.file("attempts").contents() == [1, 2, 3])
        expectError("keybagNotFound", "once more there is nothing") { _ = try KeybagErasure(at: bag.directory) }
    }

    @Test("Leaves files that somebody has put into the directories of downloads, secrets and queue")
    func foreignFilesInside() throws {
        let bag = try TestKeybag(state: .unlocked)
        let kept = [
            (DownloadsDirectory.name, "holiday.jpg"), (SecretsKeys.directoryName, "notes.txt"),
            (QueueNote.directoryName, "thoughts"),
        ]
        for (name, file) in kept {
            try OwnDirectory.make(bag.file(name))
            try bag.file(name).appending(file).overwrite([1])
        }
        for (name, file) in [
            (DownloadsDirectory.name, "queue.sqlite-wal"), (DownloadsDirectory.name, "bell.0a1b"),
            (SecretsKeys.directoryName, "secrets.sqlite"), (QueueNote.directoryName, "1.tries"),
            (QueueNote.directoryName, "00ff.late"),
        ] { try bag.file(name).appending(file).overwrite([2]) }
        let left = try KeybagErasure(at: bag.directory).perform()
        #expect(Set(left) == Set(kept.map { bag.file($0.0) }))
        for (name, file) in kept {
            #expect(try bag.file(name).names() == [file])
            #expect(try bag.file(name).appending(file).contents() == [1])
        }
    }

    @Test("A directory with a file keybag.new is not a keybag for that")
    func onlyTheName() throws {
        let bag = try TestKeybag()
        let other = bag.scratchPath.appending("documents")
        try OwnDirectory.make(other.appending("downloads"))
        try other.appending("keybag.new").overwrite([1, 2, 3])
        expectError("keybagNotFound") { _ = try KeybagErasure(at: other) }
    }

    @Test(
        "A link in place of a directory is left, and its target stays",
        arguments: [
            SecretsKeys.directoryName, DownloadsDirectory.name, QueueNote.directoryName,
            ClassChangeIntent.directoryName,
        ])
    func plantedLinks(name: String) throws {
        let bag = try TestKeybag(state: .unlocked)
        let elsewhere = bag.scratchPath.appending("elsewhere")
        try OwnDirectory.make(elsewhere)
        for file in ["file", DownloadsDirectory.keyName] { try elsewhere.appending(file).overwrite([1]) }
        try bag.file(name).makeSymbolicLink(to: elsewhere)
        #expect(try KeybagErasure(at: bag.directory).perform() == [bag.file(name)])
        for file in ["file", DownloadsDirectory.keyName] { #expect(try elsewhere.appending(file).contents() == [1]) }
        #expect(bag.ringContents == [])
    }

    @Test(
        "A keybag of another user is an error, and nothing of it is removed",
        .enabled(if: geteuid() == 0, "only root can give a directory away"))
    func foreignOwner() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = try bag.directory.names()
        #expect(chown(bag.directory.string, 65_534, 65_534) == 0)
        expectError("keybagUnsafe") { _ = try KeybagErasure(at: bag.directory).perform() }
        #expect(try bag.directory.names() == before)
        #expect(bag.ringContents == [1, 2])
    }

    @Test("While the keyring of another user namespace holds the keys, nothing is removed")
    func keysInAnotherNamespace() throws {
        let bag = try TestKeybag(state: .unlocked)
        let before = try bag.directory.names()
        try bag.file("rings").overwrite(Array("4242 \(Hexadecimal.text(Clock.bootID())) 0\n".utf8))
        expectError("keysElsewhere") { _ = try KeybagErasure(at: bag.directory).perform() }
        #expect(try bag.directory.names() == before)
        #expect(bag.ringContents == [1, 2])
    }

    @Test("Works on a keybag that is damaged: by the name in a copy, or by what is remembered", arguments: [40, 8, 0])
    func damaged(intact: Int) throws {
        let bag = try TestKeybag()
        if intact == 0 { try bag.unlock() }  // which remembers it
        for copy in [0, 1] {
            try bag.file("keybag.\(copy)").overwrite(Array(try bag.file("keybag.\(copy)").contents().prefix(intact)))
        }
        if intact == 8 {
            try link(of: bag).remove()
        }
        let erasure = try KeybagErasure(at: bag.directory)
        #expect(erasure.uuid == (intact == 8 ? nil : bag.keybag.uuid))
        #expect(try erasure.perform() == [])
        #expect(!OwnDirectory.exists(bag.directory))
        #expect(bag.ringContents == [])
    }

    @Test("Touches nothing where there is no keybag")
    func nothingThere() throws {
        let scratch = ScratchDirectory()
        let directory = scratch.path.appending("attempts-only")
        expectError("keybagNotFound") { _ = try KeybagErasure(at: directory) }
        try OwnDirectory.make(directory)
        try directory.appending("transition").overwrite([UInt8](repeating: 7, count: 64))
        expectError("keybagNotFound") { _ = try KeybagErasure(at: directory) }
        #expect(try directory.appending("transition").contents().first == 7)
    }

    @Test("A copy of the keybag elsewhere is found again as before")
    func copyElsewhere() throws {
        let bag = try TestKeybag(state: .unlocked)
        let copy = bag.scratchPath.appending("copy")
        try OwnDirectory.make(copy)
        for name in try bag.directory.names() { try copy.appending(name).overwrite(try bag.file(name).contents()) }
        try Keybag(at: copy).unlock(passcode: secret(TestKeybag.passcode))
        _ = try KeybagErasure(at: bag.directory).perform()
        #expect(bag.ringContents == [], "its keys are the same, and gone")
        #expect(try Keybag.remembered(bag.keybag.uuid).directory == copy)
    }

    @Test("An unlock that was under way loads nothing", arguments: [false, true])
    func unlockUnderWay(leavesFile: Bool) throws {
        let bag = try TestKeybag()
        if leavesFile { try bag.file("letter").overwrite([1]) }
        let counter = try bag.keybag.transition.readStrictly().counter
        let loaded = try bag.keybag.file.load()
        let key = try bag.keybag.openWithPasscode(secret(TestKeybag.passcode), loaded)
        let keys = try OpenedKeys(loaded, key, bag.directory)
        _ = try KeybagErasure(at: bag.directory).perform()
        #expect(throws: DataProtectionError.self) { try bag.keybag.load(keys, seconds: nil, ifCounterIs: counter) }
        #expect(bag.ringContents == [])
    }
}

extension ProtectionState {
    fileprivate static let all: [ProtectionState] = [.beforeFirstUnlock, .unlocked, .locked]
}
