import Foundation
import SystemPackage
import Testing

@testable import DataProtection
@testable import Keybags

/// The notes by which a lock knows of mounts. No mount of protectfs is made here.
@Suite("Notes of mounts")
struct MountNoteTests {
    private let bag: TestKeybag
    init() throws { bag = try TestKeybag(state: .unlocked) }

    private var notes: FilePath { bag.file("run").appending("mounts") }

    /// Of a mount that is not there.
    private func note(boot: [UInt8] = Clock.bootID(), point: FilePath = "/nowhere") throws -> MountNote {
        let text =
            "server 4711\nmount 999999999\ndevice 0:1048575\nnamespace \(MountNote.namespace(of: "self") ?? 0)\n"
            + "boot \(Hexadecimal.text(boot))\npoint "
        return try #require(MountNote(decoding: Array(text.utf8) + point.bytes))
    }

    /// The text of a note without a server.
    private func leave(_ bytes: [UInt8], as name: String = "4711.1") throws {
        mkdir(bag.file("run").string, 0o700)
        mkdir(notes.string, 0o700)
        try notes.appending(name).overwrite(bytes)
    }

    private var names: [String] { (try? FileManager.default.contentsOfDirectory(atPath: notes.string)) ?? [] }

    @Test("A note says what it was given, with any bytes in the mount point")
    func text() throws {
        let point = FilePath(bytes: Array("/a\nb ".utf8) + [0xFF])
        let note = try note(point: point)
        #expect(MountNote(decoding: note.encoded) == note)
        #expect(note.point == point && note.server == 4711 && note.mount == 999_999_999 && note.device == "0:1048575")
    }

    @Test("Half a note, and anything else, is none and is left alone")
    func others() throws {
        let whole = try note().encoded
        for count in 0..<(whole.count - "nowhere".utf8.count) {
            #expect(MountNote(decoding: Array(whole.prefix(count))) == nil)
        }
        #expect(MountNote(decoding: whole + [0]) == nil)
        try leave(Array(whole.prefix(20)), as: "half")
        symlink("/nowhere", notes.appending("link").string)
        mkdir(notes.appending("directory").string, 0o700)
        #expect(try bag.keybag.lock(waiting: 0).isClean)
        #expect(names.sorted() == ["directory", "half", "link"])
    }

    @Test("The note of a mount that has gone is removed, and the lock is clean", arguments: [false, true])
    func gone(wasBeforeBoot: Bool) throws {
        let boot = wasBeforeBoot ? [UInt8](repeating: 7, count: 16) : Clock.bootID()
        try leave(try note(boot: boot, point: wasBeforeBoot ? "/" : "/nowhere").encoded)
        let report = try bag.keybag.lock(waiting: 0)
        #expect(report.isClean && report.mounts == [])
        #expect(names == [])
    }

    /// Runs a program that succeeds.
    private static func command(_ words: String...) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = words
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(words)")
    }

    @Test(
        "A dead server's mount whose files somebody has open is not clean, until they are closed",
        .enabled(if: geteuid() == 0, "only root can mount another file system"))
    func held() throws {
        let point = bag.scratchPath.appending("point")
        mkdir(point.string, 0o700)
        // The directory that a mount hides has the same path, and may be open.
        let hidden = try LowerDirectory(point)
        try Self.command("mount", "-t", "tmpfs", "tmpfs", point.string)
        defer { try? Self.command("umount", "--lazy", point.string) }
        var note = try note(point: point)
        note.mount = try #require(try MountTable.seen().mounts.last { $0.point == point }?.id)
        try leave(note.encoded)
        let file = try LowerFile(point.appending("file"), flags: O_RDONLY | O_CREAT)
        let report = try bag.keybag.lock(waiting: 0)
        #expect(!report.isClean)
        let mount = try #require(report.mounts.first)
        #expect(mount.server == 4711 && !mount.isServed && mount.point == point)
        let own = try #require(mount.holders.first { $0.pid == getpid() })
        #expect(own.files == [point.appending("file")])
        #expect(names == ["4711.1"])
        try file.close()
        #expect(try bag.keybag.lock(waiting: 0).isClean)
        #expect(names == [])
        withExtendedLifetime(hidden) {}
    }

    @Test("A held note is there while its server lives; a lock is clean only if that has answered")
    func served() throws {
        let held = try #require(try HeldMountNote.hold(try note(), inKeybag: bag.directory))
        #expect(names == ["4711.1"])
        // A server that is no client of the keybag has not answered the lock.
        let report = try bag.keybag.lock(waiting: 0)
        #expect(!report.isClean && report.mounts.map(\.server) == [4711] && report.mounts.allSatisfy(\.isServed))
        #expect(names == ["4711.1"])
        let second = try #require(try HeldMountNote.hold(try note(), inKeybag: bag.directory))
        #expect(names.sorted() == ["4711.1", "4711.2"])
        held.end()
        second.end()
        #expect(names == [])
    }

    @Test("There is no note of a mount that is not there, and erasing takes notes away")
    func none() throws {
        #expect(throws: DataProtectionError.self) { try MountNote(at: bag.directory) }
        try leave(try note().encoded)
        _ = try KeybagErasure(at: bag.directory).perform()
        #expect(!FileManager.default.fileExists(atPath: bag.directory.string))
    }
}
