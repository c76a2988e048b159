import SystemPackage
import Testing

/// RLIMIT_NPROC binds everybody but root. A thread counts as a process.
@Suite(
    "End to end: a user who may start no more processes",
    .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
struct EndToEndThreadTests {
    private let user: EndToEndUser
    private let bytes = randomBytes(3 << 20)

    init() throws {
        user = try EndToEndUser.made()
        try user.unlock()
    }

    /// Runs a verb that gets no thread and no process. Status 124: it had not ended after two minutes.
    private func run(
        _ words: [String], in session: EndToEndUser.Session = .plain, input: [UInt8] = []
    ) throws -> EndToEndRun {
        let program = user.programs.appending("protectfs").string
        return try user.run(["timeout", "120", "prlimit", "--nproc=1", program] + words, in: session, input: input)
    }

    /// Runs a verb that succeeds.
    private func succeed(_ words: [String], input: [UInt8] = [], at location: SourceLocation = #_sourceLocation) throws
    {
        let done = try run(words, input: input)
        #expect(done.status == 0, "\(done)", sourceLocation: location)
    }

    @Test("A large file is written and read", arguments: EndToEndUser.classes)
    func write(protectionClass: String) throws {
        let file = user.home.appending("file")
        try succeed(["write", "--class", protectionClass, file.string], input: bytes)
        try user.expectReads(file, bytes)
        let read = try run(["cat", file.string])
        #expect(read.status == 0 && read.output == bytes, "\(read)")
        try succeed(["write", "--append", file.string], input: bytes)
        try user.expectReads(file, bytes + bytes)
    }

    @Test("Large files are protected, upgraded, backed up, verified, given new keys and unprotected")
    func conversions() throws {
        let tree = user.home.appending("tree")
        try tree.makeDirectory()
        let files = ["one", "two", "three"].map { tree.appending($0) }
        for file in files { try file.store(bytes) }
        try user.give(tree)

        try succeed(["protect", files[0].string])
        try user.expectReads(files[0], bytes)
        try succeed(["upgrade", "--class", "complete", tree.string])
        for file in files {
            #expect(try file.storedBytes() != bytes)
            try user.expectReads(file, bytes)
        }
        try succeed(["class", "--rekey", files[1].string])
        try succeed(["verify", "--recursive", tree.string])
        try succeed(
            ["backup", "--to", user.home.appending("backup").string, "--passphrase-fd", "0", tree.string],
            input: Array("a long passphrase for tests\n".utf8))
        for file in files { try user.expectReads(file, bytes) }
        try succeed(["unprotect", "--recursive", tree.string])
        for file in files { #expect(try file.storedBytes() == bytes) }
    }

    @Test("It is unlocked and locked")
    func unlock() throws {
        let file = user.home.appending("file")
        try user.write(file, "complete", [1])
        try succeed(["lock"])
        try user.expectLocked(file)
        try succeed(["unlock", "--passcode-fd", "0"], input: Array(EndToEndUser.passcode.utf8))
        try user.expectReads(file, [1])
    }

    @Test("A rotation that the keyring refuses for that says so, and changes nothing")
    func rotation() throws {
        let file = user.home.appending("file")
        try user.write(file, "complete", [1])
        // Where the user's keyring is not possessed, only another thread can possess it.
        let done = try run(
            ["rotate", "--root", user.home.string, "--passcode-fd", "0"], in: .freshKeyring,
            input: Array(EndToEndUser.passcode.utf8))
        #expect(done.status == 69, "\(done)")
        #expect(done.errors.contains("resource temporarily unavailable"), "\(done)")
        #expect(done.errors.contains("ulimit -u"), "\(done)")
        try user.expectReads(file, [1])
        let doctor = try user.run(["protectfs", "doctor"])
        #expect(!doctor.text.contains("older copy") && !doctor.text.contains("interrupted"), "\(doctor.text)")
    }

    /// Most of what a download does waits for others, on threads that the system would have to make.
    @Test("A download says so at once, and is there for the next run")
    func download() throws {
        let file = user.home.appending("downloaded")
        let added = try user.run(["protectfs", "download", "add", "https://127.0.0.1:1/file", "-o", file.string])
        #expect(added.status == 0, "\(added)")
        let done = try run(["download", "run"])
        #expect(done.status == 71, "\(done)")
        #expect(done.errors.contains("ulimit -u"), "\(done)")
        let listed = try user.run(["protectfs", "download", "list"])
        #expect(listed.status == 0 && listed.text.contains("waiting"), "\(listed)")
    }
}
