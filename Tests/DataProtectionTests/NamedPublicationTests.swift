import Foundation
import Testing

@testable import DataProtection

/// Files that have a temporary name from the beginning, because the file system has no files without one: they are published by rename.
@Suite struct NamedPublicationTests {
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed(state: .beforeFirstUnlock) }

    private func made(_ bytes: [UInt8], for name: String) throws -> UnnamedFile {
        let file = try UnnamedFile(DirectoryEntry(bed.path(name)), isNamed: true)
        try file.file.write(bytes, at: 0)
        try file.file.flushAll()
        return file
    }

    @Test("A new file gets its name by rename, not by link: on some file systems a link is a second inode")
    func renamed() throws {
        let watch = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        defer { close(watch) }
        let file = try made([1, 2], for: "f")
        #expect(try bed.names() == [".f.protectfs-unfinished-0"])
        #expect(inotify_add_watch(watch, bed.directory.string, UInt32(IN_CREATE)) >= 0)
        try file.publish(replacing: false)
        var event = [UInt8](repeating: 0, count: 4096)
        #expect(read(watch, &event, event.count) < 0, "no name was created, one was moved")
        #expect(try bed.names() == ["f"])
        #expect(try bed.path("f").contents() == [1, 2])
    }

    @Test("A name that is taken is replaced only on request, and nothing is left behind")
    func takenNames() throws {
        try bed.makePlain("f", [1])
        do {
            let file = try made([2], for: "f")
            expectError("exists") { try file.publish(replacing: false) }
        }
        #expect(try bed.names() == ["f"])
        #expect(try bed.path("f").contents() == [1])
        try made([3], for: "f").publish(replacing: true)
        #expect(try bed.names() == ["f"])
        #expect(try bed.path("f").contents() == [3])
    }

    @Test("It is its owner's alone while it is written, and then has the mode that the umask gives")
    func mode() throws {
        let other = open(bed.path("other").string, O_CREAT | O_WRONLY, 0o666)
        close(other)
        let file = try made([1], for: "f")
        #expect(try file.file.status().st_mode & 0o777 == 0o600)
        try file.takeUsualMode()
        try file.publish(replacing: false)
        #expect(try bed.path("f").mode() == (try bed.path("other").mode()))
    }

    @Test("Where the file system cannot refuse to replace, an empty file takes the name first")
    func placeholder() throws {
        let directory = try LowerDirectory(bed.directory)
        try bed.makePlain("a", [1])
        try directory.renameOverPlaceholder("a", to: "f")
        #expect(try bed.names() == ["f"])
        #expect(try bed.path("f").contents() == [1])
        try bed.makePlain("b", [2])
        expectError("exists") { try directory.renameOverPlaceholder("b", to: "f") }
        #expect(try bed.names() == ["b", "f"])
        #expect(try bed.path("f").contents() == [1])
        expectError("system") { try directory.renameOverPlaceholder("nothing", to: "g") }
        #expect(try bed.names() == ["b", "f"], "the empty file went with the failure")
    }

    @Test("An export takes no other file's place, and its temporary name goes")
    func smallFiles() throws {
        try bed.makePlain("f", [1])
        expectError("exists") {
            try AtomicReplace.write([2], to: bed.path("f"), through: bed.path("f.new"), AtomicReplace.publishAsNew)
        }
        #expect(try bed.names() == ["f"])
        try AtomicReplace.write([2], to: bed.path("g"), through: bed.path("g.new"), AtomicReplace.publishAsNew)
        #expect(try bed.names() == ["f", "g"])
        #expect(try bed.path("g").contents() == [2])
    }
}
