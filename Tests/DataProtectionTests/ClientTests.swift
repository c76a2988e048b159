import Foundation
import ProtectionFormat
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedFiles

/// Who says that it has protected files open, and what becomes of that.
@Suite struct ClientTests {
    private let bed: FileTestBed
    init() throws { bed = try FileTestBed() }

    private var clients: FilePath { ClientFile.directory(of: bed.keybag.directory) }

    private func handles(_ keybag: Keybag? = nil) -> [Int] {
        (keybag ?? bed.keybag).clients().flatMap { [$0.completeHandles, $0.unlessOpenHandles] }
    }

    @Test("Open handles of classes A and B are counted, of one process once, until they are closed")
    func counts() throws {
        let keybag = bed.keybag
        let other = try bed.bag.reopened()
        #expect(handles() == [])
        for name in ProtectionClass.allCases { try bed.make(name.shortName, name, [1]) }
        #expect(handles() == [], "all of these are closed")
        let open = try ProtectionClass.allCases.map {
            try ProtectedFile.open(bed.path($0.shortName), .readWrite, keybag: keybag)
        }
        #expect(handles() == [1, 1])
        let another = try ProtectedFile.open(bed.path("complete"), keybag: other)
        #expect(handles() == [2, 1])
        let writer = try ProtectedFileWriter(bed.path("new"), as: .completeUnlessOpen, keybag: other)
        #expect(handles(other) == [2, 2], "a file that is being written counts")
        try writer.finish()
        try bed.keybag.setProtection(.complete, ofItemAt: bed.path("unless-open"))
        for file in open { _ = try file.bytes(at: 0, count: 1) }
        #expect(handles() == [3, 0], "a handle follows its file to another class")
        #expect(keybag.clients().map(\.pid) == [getpid()])
        for file in open { try file.close() }
        try another.close()
        withExtendedLifetime(writer) { #expect(handles() == []) }
    }

    @Test("Its file goes with the process's last use of the keybag, and a killed one's when somebody looks")
    func ends() throws {
        let path = try bed.make("file", .complete, [1])
        func names() -> [String] { (try? DirectoryListing.names(of: clients)) ?? [] }
        func use() throws -> [String] {
            let directory = bed.bag.scratchPath.appending("link")
            symlink(bed.keybag.directory.string, directory.string)
            let keybag = try Keybag(at: directory)
            let file = try ProtectedFile.open(path, keybag: keybag)
            return withExtendedLifetime(file) { names() }
        }
        let before = names().count
        #expect(try use().count == before + 1)
        while names().count > before { usleep(1_000) }  // the thread that hears of locks may hold it for a moment
        let worker = try StormProcess(bed.keybag.directory, ["serve"])
        #expect(try worker.ask("open r \(path)").hasPrefix("ok"))
        #expect(handles() == [1, 0])
        #expect(bed.keybag.clients().first?.program == "storm-worker")
        _ = try worker.kill(after: nil)
        #expect(names().count == before + 1)
        #expect(handles() == [])
        #expect(names().count == before)
    }

    @Test("Plaintext that a program was given keeps a lock from being clean until its note is removed")
    func heldPlaintext() throws {
        let held = try HeldPlaintext(by: "editor", keybag: bed.keybag)
        #expect(bed.keybag.clients() == [])
        for name in ["one", "two", "one"] { held.add(bed.path(name)) }
        let report = try bed.keybag.lock(waiting: 600)
        #expect(!report.isClean)
        #expect(report.clients.map(\.program) == ["editor"])
        #expect(report.clients.map(\.plaintextFileCount) == [2])
        #expect(report.clients.flatMap(\.plaintextFiles) == [bed.path("one"), bed.path("two")])
        #expect(report.clients.flatMap(\.unlessOpenFiles) == [])
        held.end()
        #expect(try bed.keybag.lock(waiting: 600).isClean)
    }

    @Test("A file that no client wrote is left alone, and no lock waits for it")
    func foreign() throws {
        try bed.make("file", .complete, [1])
        let names = ["text", "empty-name", "long", "fifo", "directory", "link"]
        for (name, bytes) in zip(names, [Array("hello".utf8), [0], [UInt8](repeating: 7, count: 5000)]) {
            try clients.appending(name).overwrite(bytes)
        }
        mkfifo(clients.appending("fifo").string, 0o600)
        mkdir(clients.appending("directory").string, 0o700)
        symlink("/etc/passwd", clients.appending("link").string)
        let garbled = try LowerFile(clients.appending("text"), flags: O_RDWR)
        #expect(try garbled.tryByteLock(0, .exclusive))
        #expect(try bed.keybag.lock(waiting: 600).clients == [])
        #expect(try Set(names).isSubset(of: DirectoryListing.names(of: clients)))
    }

    @Test("Where nothing can be written nobody is kept from a file, and a lock waits for nobody")
    func withoutDirectory() throws {
        let path = try bed.make("file", .complete, [1])
        let run = clients.removingLastComponent()
        // The bed's own keybag may make it again in between.
        var isFile = false
        while !isFile {
            try? FileManager.default.removeItem(atPath: run.string)
            isFile = (try? run.overwrite([])) != nil
        }
        let keybag = try bed.bag.reopened()
        #expect(try ProtectedFile.open(path, keybag: keybag).bytes(at: 0, count: 1) == [1])
        #expect(try keybag.lock(waiting: 600).isClean)
    }

    @Test("A file that somebody has cleared away is made again")
    func cleared() throws {
        let path = try bed.make("file", .complete, [1])
        let file = try ProtectedFile.open(path, keybag: bed.keybag)
        // It may be there again before the directories above it have gone.
        try? FileManager.default.removeItem(atPath: clients.removingLastComponent().string)
        while handles() != [1, 0] { usleep(1_000) }  // without anything that it does with files
        try FileManager.default.moveItem(
            atPath: clients.removingLastComponent().string, toPath: bed.path("moved away").string)
        while handles() != [1, 0] { usleep(1_000) }
        let again = try ProtectedFile.open(path, keybag: bed.keybag)
        withExtendedLifetime((file, again)) { #expect(handles() == [2, 0]) }
    }

    @Test("Open class B files are named, 16 at most, by absolute paths, also when somebody has cleared run/")
    func names() throws {
        func names() -> [String] { bed.keybag.clients().flatMap(\.unlessOpenFiles).map { $0.lastComponent!.string } }
        let all = (0..<18).map { "file-\($0)" }
        for name in all { try bed.make(name, .completeUnlessOpen, [1]) }
        var files = try all.map { try ProtectedFile.open(bed.path($0), keybag: bed.keybag) }
        #expect(names() == Array(all.prefix(16)))
        try files.remove(at: 3).close()
        #expect(names() == all.prefix(16).filter { $0 != "file-3" })
        try RunDirectory(of: bed.keybag.directory).path.appending("clients").remove()
        files.append(try ProtectedFile.open(bed.path("file-3"), keybag: bed.keybag))
        #expect(Set(names()) == Set(all.prefix(16)))
        #expect(bed.keybag.clients().flatMap(\.unlessOpenFiles).allSatisfy { $0.isAbsolute })
        for file in files { try file.close() }
        #expect(names() == [])
    }

    @Test("Where the keybag is erased none is made again")
    func erased() async throws {
        let file = try ProtectedFile.open(bed.make("file", .complete, [1]), keybag: bed.keybag)
        // In the order of erasing.
        for name in KeybagFile.names { try AtomicReplace.remove(bed.keybag.directory.appending(name)) }
        for name in try DirectoryListing.names(of: clients) { try AtomicReplace.remove(clients.appending(name)) }
        rmdir(clients.string)
        try await Task.sleep(for: .milliseconds(200))
        #expect(rmdir(clients.removingLastComponent().string) == 0)
        withExtendedLifetime(file) {}
    }

    // MARK: locks

    @Test("A lock waits for what holds a key, as long as it is told, and for nothing that begins later")
    func inFlight() throws {
        try bed.make("file", .complete, [1])
        var use: KeyUse? = bed.keybag.client.begin()
        #expect(try !bed.keybag.lock(waiting: 0.05).isClean)
        #expect(try bed.keybag.state() == .locked, "the keys went all the same")
        var later: KeyUse? = bed.keybag.client.begin()
        #expect(bed.keybag.clients().map(\.hasAnswered) == [false])
        use = nil
        #expect(bed.keybag.clients() == [])
        later = nil
        withExtendedLifetime((use, later)) {}
        #expect(try bed.keybag.lock(waiting: 600).isClean)
    }

    @Test("A process that begins after an unlock owes nothing to a lock before it, of which no event was left")
    func lockLongAgo() throws {
        try bed.keybag.lock()
        try bed.bag.unlock()
        #expect(EventFile(of: bed.keybag.directory).read() == nil)
        let file = try bed.make("file", .complete, [1])
        let handle = try ProtectedFile.open(file, keybag: bed.keybag)
        while bed.keybag.clients().map(\.hasAnswered) != [true] { usleep(1_000) }
        withExtendedLifetime(handle) {}
    }

    @Test("Of two locks one after the other the second one waits for everything before it")
    func twice() throws {
        try bed.make("file", .complete, [1])
        var first: KeyUse? = bed.keybag.client.begin()
        #expect(try !bed.keybag.lock(waiting: 0).isClean)
        try bed.bag.unlock()
        var second: KeyUse? = bed.keybag.client.begin()
        #expect(try !bed.keybag.lock(waiting: 0).isClean)
        first = nil
        #expect(bed.keybag.clients().map(\.hasAnswered) == [false])
        second = nil
        #expect(bed.keybag.clients() == [])
        withExtendedLifetime((first, second)) {}
    }

    @Test("A lock commits what was written before it, and the handle goes on after an unlock")
    func commits() throws {
        let path = try bed.make("file", .complete, [1, 2, 3])
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([9, 9, 9, 9], at: 0)
        #expect(try bed.read(path) == [1, 2, 3])
        #expect(try bed.keybag.lock(waiting: 600).isClean)
        try bed.bag.unlock()
        #expect(try bed.read(path) == [9, 9, 9, 9])
        try file.write([8], at: 0)
        #expect(try bed.keybag.lock(waiting: 600).isClean)
        try bed.bag.unlock()
        #expect(try bed.read(path) == [8, 9, 9, 9])
        try file.close()
    }

    @Test("A write that is refused because of a lock leaves nothing for that lock to commit after the next unlock")
    func refusedWrite() throws {
        let path = try bed.make("file", .complete, [1, 2, 3])
        let file = try ProtectedFile.open(path, .readWrite, keybag: bed.keybag)
        try file.write([9], at: 0)
        #expect(file.isNoted)
        #expect(try bed.keybag.lock(waiting: 600).isClean)
        expectError("locked") { try file.write([8], at: 0) }
        #expect(!file.isNoted)
        try bed.bag.unlock()
        try file.write([7], at: 1)
        #expect(file.isNoted)
        #expect(try bed.read(path) == [9, 2, 3])
        try file.close()
    }

    @Test("Open class B handles are reported and are clean")
    func classB() throws {
        let path = try bed.make("file", .completeUnlessOpen, [1])
        let file = try ProtectedFile.open(path, keybag: bed.keybag)
        let report = try bed.keybag.lock(waiting: 600)
        #expect(report.isClean)
        #expect(report.clients.map(\.unlessOpenHandles) == [1])
        #expect(try file.bytes(at: 0, count: 1) == [1])
        try file.close()
        #expect(try bed.keybag.lock(waiting: 600).clients == [])
    }
}
