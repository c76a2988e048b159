import SystemPackage
import Testing

/// What other programs of the same user leave in the ring under the names of our keys.
@Suite("End to end: keys in the ring that are not as they should be", .serialized)
struct EndToEndKeyTests {
    private static let absent = "Required key not available"

    @Test("A key left with its default permission is cleared by lock, from every session")
    func defaultPermission() throws {
        let user = try EndToEndUser.caller()
        let file = user.home.appending("file")
        let bytes = randomBytes(1000)
        try user.unlock()
        try user.write(file, "complete", bytes)
        let payload = try self.payload(of: user)
        for session in user.sessions {
            // The genuine payload: this is what a kill between add_key and setperm leaves.
            try user.lock()
            try plant(payload, for: user, in: session)
            try user.lock(in: session)
            try expectAbsent(user)
            for reading in user.sessions { try user.expectLocked(file, in: reading) }
        }
        // It is the permission alone that is wrong: where the ring is possessed, the planted key opens.
        try plant(payload, for: user, in: .plain, permissions: true)
        try user.expectReads(file, bytes)
        try user.lock()
    }

    @Test(
        "A lock evicts the keys of a user who may start no more processes",
        .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
    func noThread() throws {
        let user = try EndToEndUser.made()
        let file = user.home.appending("file")
        try user.unlock()
        try user.write(file, "complete", [1])
        let program = user.programs.appending("protectfs").string
        let done = try user.run(["prlimit", "--nproc=1", program, "lock"])
        #expect(done.status == 0, "\(done)")
        try expectAbsent(user)
        try user.expectLocked(file, in: .plain)
    }

    @Test("An expired key is cleared by lock, from every session")
    func expired() throws {
        let user = try EndToEndUser.caller()
        let file = user.home.appending("file")
        try user.unlock()
        try user.write(file, "complete", [1])
        for session in user.sessions {
            try user.unlock()
            let serial = try user.search(user.keyName(1)).text.dropLast()
            let done = try user.run(["keyctl", "timeout", String(serial), "1"])
            try #require(done.status == 0, "\(done)")
            #expect(try eventually { try user.search(user.keyName(1)).errors.contains("expired") })
            try user.lock(in: session)
            try expectAbsent(user)
            try user.expectLocked(file, in: session)
        }
    }

    @Test("A forged key is never used, and makes way for the genuine one")
    func forged() throws {
        let user = try EndToEndUser.caller()
        let file = user.home.appending("file")
        let bytes = randomBytes(1000)
        try user.unlock()
        try user.write(file, "complete", bytes)
        var forgery = try payload(of: user)
        for index in 24..<forgery.count { forgery[index] &+= 1 }
        for forgery in [forgery, randomBytes(96), [0]] {
            try user.lock()
            try plant(forgery, for: user, in: .plain, permissions: true)
            for session in user.sessions {
                #expect(try user.status(in: session).state == "locked", "\(session)")
                try user.expectLocked(file, in: session)
                user.expectLocked(
                    try user.run(
                        ["protectfs", "write", "--class", "complete", user.home.appending("new").string],
                        in: session, input: [1]))
            }
            try user.unlock()
            try user.expectReads(file, bytes)
        }
        #expect(try !user.home.entries().contains("new"))
    }

    // MARK: keyctl(1)

    private func payload(of user: EndToEndUser) throws -> [UInt8] {
        let serial = try user.search(user.keyName(1)).text.dropLast()
        let done = try user.run(["keyctl", "pipe", String(serial)])
        try #require(done.status == 0 && done.output.count > 32, "\(done)")
        return done.output
    }

    /// - Parameter permissions: whether the key gets those that the library would give it.
    private func plant(
        _ payload: [UInt8], for user: EndToEndUser, in session: EndToEndUser.Session, permissions: Bool = false
    ) throws {
        let added = try user.run(["keyctl", "padd", "user", user.keyName(1), "@u"], in: session, input: payload)
        try #require(added.status == 0, "\(added)")
        guard permissions else { return }
        // Only who possesses the key may do that.
        let script = "keyctl link @u @s; keyctl setperm \(added.text.dropLast()) 0x3f2b0000"
        let done = try user.run(["sh", "-c", script], in: .freshKeyring)
        try #require(done.status == 0, "\(done)")
    }

    private func expectAbsent(_ user: EndToEndUser, at location: SourceLocation = #_sourceLocation) throws {
        for session in user.sessions {
            let found = try user.search(user.keyName(1), in: session)
            #expect(found.errors.contains(Self.absent), "\(session): \(found)", sourceLocation: location)
        }
    }
}

/// What one user has unlocked, nobody else reads.
@Suite(
    "End to end: other users", .serialized, .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
struct EndToEndOtherUsersTests {
    @Test("Another user, and root as itself, read neither keys nor files")
    func nobodyElse() throws {
        let owner = try EndToEndUser.made()
        // A place where everybody may read the stored bytes.
        let place = try EndToEndDirectory()
        try owner.give(place.path)
        let file = place.path.appending("file")
        let bytes = randomBytes(5000)
        try owner.unlock()
        try owner.write(file, "complete", bytes)
        try owner.expectReads(file, bytes)
        try #require(try file.stat().permissions.contains(.otherRead))

        for other in [try EndToEndUser.made(), try EndToEndUser.caller()] {
            try other.unlock()
            for session in other.sessions {
                try expectNoKeys(of: owner, for: other, in: session)
                let done = try other.run(["protectfs", "cat", file.string], in: session)
                #expect(done.status == 66, "\(done)")
                #expect(done.errors.contains("belongs to keybag \(owner.keybag.uuid)"), "\(done)")
                #expect(done.output == [])
                let named = try other.run(
                    ["protectfs", "cat", "--keybag", owner.keybag.directory.string, file.string], in: session)
                #expect(named.status == 77, "\(named)")
                #expect(named.output == [])
            }
        }
        // None of this was in the owner's way.
        try owner.expectReads(file, bytes)
    }

    private func expectNoKeys(
        of owner: EndToEndUser, for other: EndToEndUser, in session: EndToEndUser.Session
    ) throws {
        for number in [1, 2] {
            let found = try owner.search(owner.keyName(number))
            let serial = String(found.text.dropLast())
            try #require(found.status == 0 && Int32(serial) != nil, "\(found)")
            let search = try other.search(owner.keyName(number), in: session)
            #expect(search.status != 0 && search.errors.contains("Required key not available"), "\(search)")
            for verb in [["pipe", serial], ["print", serial], ["link", serial, "@s"], ["timeout", serial, "1"]] {
                let done = try other.run(["keyctl"] + verb, in: session)
                #expect(done.status != 0 && done.errors.contains("Permission denied"), "\(session): \(done)")
                #expect(done.output == [], "\(session): \(done)")
            }
        }
    }
}
