import SystemPackage
import TestEffort
import Testing

/// Under strace: no plaintext byte reaches any path, temporary file or pipe.
@Suite(
    "End to end: system calls",
    .enabled(if: EndToEndUser.canMakeUsers && SystemCallTrace.isPossible, SystemCallTrace.whyNot))
struct EndToEndTraceTests {
    private let user: EndToEndUser
    private let directory: FilePath
    private let marker = Secret(randomBytes(32), repeats: true)

    init() throws {
        user = try EndToEndUser.caller()
        directory = user.home.appending("files")
        try directory.makeDirectory()
        try user.unlock()
    }

    /// Runs a command that must reveal nothing, and looks through all files afterwards.
    private func trace(
        _ arguments: [String], input: [UInt8] = [], at location: SourceLocation = #_sourceLocation
    ) throws {
        let trace = try SystemCallTrace(arguments, by: user, input: input)
        for call in trace.calls(revealing: marker) { Issue.record("\(call.name)", sourceLocation: location) }
        trace.expectNoOtherWays(user, at: location)
        try expectNoFileReveals(at: location)
    }

    private func expectNoFileReveals(at location: SourceLocation = #_sourceLocation) throws {
        let files = try user.home.filesBelow()
        #expect(!files.isEmpty, sourceLocation: location)
        for file in files { #expect(!marker.isIn(try file.storedBytes()), "\(file)", sourceLocation: location) }
        #expect(try user.home.appending("tmp").entries() == [], sourceLocation: location)
    }

    /// At the least effort files of one size, another one each day.
    @Test("write, replace and append show no plaintext", arguments: EndToEndUser.classes)
    func writing(protectionClass: String) throws {
        let path = directory.appending("file").string
        for size in Effort.turn(of: [32, 5000, 300_000]) {
            // From the second round on the file is there, of class C where it had been none.
            try trace(["write", "--allow-weaker", "--class", protectionClass, path], input: marker.repeated(size))
            try trace(["write", path], input: marker.repeated(size + 1))
            try trace(["write", "--append", path], input: marker.repeated(size))
            let expected = marker.repeated(size + 1) + marker.repeated(size)
            try user.expectReads(FilePath(path), expected)
        }
        let log = directory.appending("log").string
        try trace(["write", "--append", "--class", protectionClass, log], input: marker.repeated(10_000))
        try trace(["write", "--append", log], input: marker.repeated(10_000))
    }

    @Test("A class change shows no plaintext")
    func classChange() throws {
        let path = directory.appending("file")
        try user.write(path, "none", marker.repeated(50_000))
        for name in ["complete", "unless-open", "first-unlock", "none", "complete"] {
            try trace(["class", "--allow-weaker", path.string, name])
        }
        try user.expectReads(path, marker.repeated(50_000))
    }

    @Test("protect shows no plaintext, and leaves none behind", arguments: [32, 5000, 700_000])
    func protect(size: Int) throws {
        let path = directory.appending("file")
        try path.store(marker.repeated(size))
        #expect(marker.isIn(try path.storedBytes()))
        try trace(["protect", path.string])
        try user.expectReads(path, marker.repeated(size))

        try path.store(marker.repeated(size))
        try trace(["protect", "--recursive", "--yes", directory.string])
    }

    @Test("Where plaintext is wanted it is seen: these tests could fail")
    func control() throws {
        let path = directory.appending("file")
        try user.write(path, "complete", marker.repeated(5000))
        let cat = try SystemCallTrace(["cat", path.string], by: user)
        #expect(cat.calls(revealing: marker).map(\.name) == ["write"])
        #expect(cat.run.output == marker.repeated(5000))
        cat.expectNoOtherWays(user)
        let unprotect = try SystemCallTrace(["unprotect", path.string], by: user)
        #expect(unprotect.calls(revealing: marker).map(\.name) == ["pwrite64"])
        #expect(marker.isIn(try path.storedBytes()))
        let argument = try SystemCallTrace(["ls", "--json", path.string], by: user)
        #expect(argument.calls(revealing: Secret(Array(path.string.utf8))).first?.name == "execve")
    }

    @Test("Neither passcode nor class keys are in arguments, environment, or anything written")
    func secrets() throws {
        let passcode = Secret(Array("\(UInt64.random(in: UInt64.max / 2...UInt64.max))".utf8))
        let old = Array(EndToEndUser.passcode.utf8)
        let path = directory.appending("file").string
        let serial = try user.search(user.keyName(1)).text.dropLast()
        let payload = try user.run(["keyctl", "pipe", String(serial)]).output
        // A header of 16 bytes, then for each key 8 bytes that tell which, and 32 that are it.
        try #require(payload.count == 136)
        let keys = [24, 64, 104].map { Secret(Array(payload[$0..<$0 + 32])) }
        for (arguments, input) in [
            (["passcode", "--passcode-fd", "0", "--new-passcode-fd", "0"], old + [10] + passcode.bytes),
            (["lock"], []), (["unlock", "--passcode-fd", "0"], passcode.bytes), (["write", path], [1, 2, 3]),
            (["cat", path], []), (["status"], []), (["lock"], []),
        ] {
            let trace = try SystemCallTrace(arguments, by: user, input: input)
            #expect(trace.calls(revealing: passcode).map(\.name) == [], "\(arguments)")
            for key in keys {
                // The kernel is told, by who has no secret memory from a buffer that strace can read.
                let calls = trace.calls(revealing: key).map(\.name).filter { $0 != "add_key" }
                #expect(calls == [], "\(arguments)")
            }
        }
    }
}
