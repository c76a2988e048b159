import DataProtection
import SystemPackage
import Testing

/// What can be made while locked and before first unlock, and what leaves nothing behind.
@Suite("End to end: locked, and before first unlock", .serialized)
struct EndToEndLockedTests {
    private static let sizes = [0, 1, 4096, 100_000, 1_500_000]

    @Test(
        "unless-open files are created, appended to and closed; they open after unlock",
        arguments: ["locked", "beforeFirstUnlock"])
    func unlessOpen(state: String) throws {
        let user = try userIn(state)
        let directory = user.home.appending("files")
        try directory.makeDirectory()
        var expected: [(path: FilePath, bytes: [UInt8])] = []
        for size in Self.sizes {
            let (whole, appended) = (directory.appending("whole-\(size)"), directory.appending("appended-\(size)"))
            let bytes = randomBytes(size)
            try user.write(whole, "unless-open", bytes)
            let done = try user.run(
                ["protectfs", "write", "--append", "--class", "unless-open", appended.string], input: bytes)
            #expect(done.status == 0, "\(done)")
            expected += [(whole, bytes), (appended, bytes)]
        }
        // Replacing a whole file is making one.
        let replaced = directory.appending("whole-1")
        try user.write(replaced, "unless-open", [1, 2, 3])
        expected[2].bytes = [1, 2, 3]

        let names = try directory.entries()
        #expect(names.count == expected.count, "\(names)")
        for (path, _) in expected {
            try user.expectLocked(path)
            // An append to a closed file reopens it.
            user.expectLocked(
                try user.run(["protectfs", "write", "--append", path.string], input: Array("more".utf8)))
        }
        #expect(try directory.entries() == names)
        let listed = try user.run(["protectfs", "ls", "--json", directory.string])
        #expect(listed.status == 0, "\(listed)")
        #expect(listed.text.contains("\"size\": 1500000"), "\(listed.text)")

        try user.unlock()
        for (path, bytes) in expected { try user.expectReads(path, bytes) }
    }

    @Test("A log goes on through a lock and an unlock, in one process")
    func log() throws {
        let user = try EndToEndUser.caller()
        let log = user.home.appending("log")
        try user.unlock()
        let (own, others) = try FileDescriptor.socketPair()
        let nothing = try NamelessFile()
        let writing = try EndToEndProcess(
            user.words(["protectfs", "write", "--append", "--class", "unless-open", log.string], in: .plain),
            environment: user.environment, input: others, output: nothing.descriptor,
            errors: nothing.descriptor)
        try others.close()
        var expected: [UInt8] = []
        for (index, change) in [user.lock, user.unlock, user.lock].enumerated() {
            let line = Array("line \(index) \(randomBytes(20))\n".utf8)
            try own.writeAll(line)
            expected += line
            let size = Int64(expected.count)
            #expect(eventually { (try? ProtectedFileInfo(of: log).size) == size })
            try change(.plain, #_sourceLocation)
        }
        try own.writeAll(Array("last".utf8))
        expected += Array("last".utf8)
        try own.close()
        #expect(writing.wait() == 0)
        try user.expectLocked(log)
        try user.unlock()
        try user.expectReads(log, expected)
    }

    @Test(
        "complete files, and first-unlock ones before first unlock, are refused and leave nothing behind",
        arguments: [("locked", ["complete"]), ("beforeFirstUnlock", ["complete", "first-unlock"])])
    func refused(state: String, classes: [String]) throws {
        let user = try userIn(state)
        let directory = user.home.appending("files")
        try directory.makeDirectory()
        let plain = directory.appending("plain")
        try plain.store(Array("plaintext that was there before".utf8))
        let names = try directory.entries()
        for name in classes {
            let path = directory.appending("new")
            for options in [[], ["--append"]] {
                for input in [[], randomBytes(3_000_000)] {
                    let words = ["protectfs", "write", "--class", name] + options + [path.string]
                    user.expectLocked(try user.run(words, input: input))
                    #expect(try directory.entries() == names)
                }
            }
            user.expectLocked(try user.run(["protectfs", "protect", "--class", name, plain.string]))
            user.expectLocked(try user.run(["protectfs", "protect", "--yes", "-r", "--class", name, directory.string]))
            #expect(try directory.entries() == names)
            #expect(try plain.storedBytes() == Array("plaintext that was there before".utf8))
            let directoryClass = try user.run(["protectfs", "class", directory.string])
            #expect(directoryClass.text == "-\n", "\(directoryClass)")
        }
    }

    @Test("A refused write leaves the file that was there as it was, byte for byte")
    func replacing() throws {
        let user = try EndToEndUser.caller()
        let directory = user.home.appending("files")
        try directory.makeDirectory()
        let path = directory.appending("file")
        let bytes = randomBytes(9000)
        try user.unlock()
        try user.write(path, "complete", bytes)
        let stored = try path.storedBytes()
        try user.lock()
        for words in [
            ["write", path.string], ["write", "--append", path.string],
            ["class", "--allow-weaker", path.string, "none"],
            ["unprotect", path.string],
        ] {
            user.expectLocked(try user.run(["protectfs"] + words, input: randomBytes(100)))
            #expect(try path.storedBytes() == stored, "\(words)")
            #expect(try directory.entries() == ["file"], "\(words)")
        }
        try user.unlock()
        try user.expectReads(path, bytes)
    }

    /// The caller, with nothing in the ring, or with what a lock leaves there.
    private func userIn(_ state: String) throws -> EndToEndUser {
        let user = try EndToEndUser.caller()
        if state == "locked" {
            try user.unlock()
            try user.lock()
        }
        try #require(try user.status().state == state)
        return user
    }
}
