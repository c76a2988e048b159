import Glibc
import StormScript
import SystemPackage
import TestEffort
import Testing

/// Every session of a user sees the same lock state, whichever session changed it.
@Suite("End to end: sessions of one user", .serialized)
struct EndToEndSessionTests {
    @Test("The user who runs the tests")
    func caller() throws { try everySession(of: try EndToEndUser.caller()) }

    @Test("A user made for the test", .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
    func made() throws { try everySession(of: try EndToEndUser.made()) }

    /// Each kind of session unlocks, reads, arms a lock, ends it by unlocking, and locks, before the eyes of all others. At the
    /// least effort one kind does so, another one each day.
    private func everySession(of user: EndToEndUser) throws {
        let files = try Files(user)
        for (index, session) in Effort.turn(of: Array(user.sessions.enumerated())) {
            let another = user.sessions[(index + 1) % user.sessions.count]
            try user.unlock(in: session)
            try files.expectAllRead()
            try graceAndCancel(user, files, armedIn: session, endedIn: another)
            try user.lock(in: session)
            try files.expectLocked()
            try user.unlock(in: another)
            try files.expectAllRead()
            try user.lock(in: session)
            try files.expectLocked()
        }
    }

    private func graceAndCancel(
        _ user: EndToEndUser, _ files: Files, armedIn session: EndToEndUser.Session,
        endedIn another: EndToEndUser.Session
    ) throws {
        let waiting = try user.start(["protectfs", "lock", "--grace", "3000"], in: session)
        #expect(try eventually { try user.status().secondsUntilLock != nil })
        for session in user.sessions {
            let status = try user.status(in: session)
            #expect(status.state == "unlocked", "\(session)")
            #expect(status.secondsUntilLock != nil, "\(session)")
        }
        try files.expectAllRead()
        try user.unlock(in: another)
        #expect(waiting.wait() == 75, "\(session)")
        for session in user.sessions {
            let status = try user.status(in: session)
            #expect(status.state == "unlocked", "\(session)")
            #expect(status.secondsUntilLock == nil, "\(session)")
        }
        try files.expectAllRead()
    }

    /// A file of each class with its bytes.
    private struct Files {
        let user: EndToEndUser
        private let contents = EndToEndUser.classes.map { ($0, randomBytes(10_000)) }

        init(_ user: EndToEndUser) throws {
            self.user = user
            try user.unlock()
            for (name, bytes) in contents { try user.write(user.home.appending(name), name, bytes) }
            try user.lock()
            try expectLocked()
        }

        func expectAllRead() throws {
            for session in user.sessions {
                #expect(try user.status(in: session).state == "unlocked", "\(session)")
                let done = try cat(in: session)
                #expect(done.status == 0, "\(session): \(done)")
                #expect(done.output == contents.flatMap(\.1), "\(session): \(done)")
            }
        }

        /// The files of class first-unlock and none still open.
        func expectLocked() throws {
            for session in user.sessions {
                #expect(try user.status(in: session).state == "locked", "\(session)")
                let done = try cat(in: session)
                #expect(done.status == 75, "\(session): \(done)")
                #expect(done.output == contents[2...].flatMap(\.1), "\(session): \(done)")
                #expect(done.errors.contains("class complete, locked"), "\(session): \(done)")
                #expect(done.errors.contains("class unless-open, locked"), "\(session): \(done)")
            }
        }

        /// All four files at once.
        private func cat(in session: EndToEndUser.Session) throws -> EndToEndRun {
            try user.run(["protectfs", "cat"] + contents.map { user.home.appending($0.0).string }, in: session)
        }
    }
}

@Suite("End to end: grace", .serialized)
struct EndToEndGraceTests {
    @Test("The lock comes when the grace is over")
    func over() throws {
        let user = try EndToEndUser.caller()
        try user.unlock()
        let done = try user.run(["protectfs", "lock", "--grace", "1"])
        #expect(done.status == 0, "\(done)")
        #expect(try user.status().state == "locked")
    }

    @Test("An unlock in the grace wins, and the waiting command says so", arguments: EndToEndUser.Session.available)
    func cancelled(session: EndToEndUser.Session) throws {
        let user = try EndToEndUser.caller()
        try user.unlock()
        let waiting = try user.start(["protectfs", "lock", "--grace", "3000"], in: session)
        #expect(try eventually { try user.status().secondsUntilLock != nil })
        try user.unlock(in: .freshKeyring)
        // It does not sit out its time.
        #expect(waiting.wait() == 75)
        #expect(try user.status().state == "unlocked")
        #expect(try user.status().secondsUntilLock == nil)
    }

    @Test(
        "A lock in the grace is at once, and the waiting command is content", arguments: EndToEndUser.Session.available)
    func overtaken(session: EndToEndUser.Session) throws {
        let user = try EndToEndUser.caller()
        try user.unlock()
        let waiting = try user.start(["protectfs", "lock", "--grace", "3000"], in: session)
        #expect(try eventually { try user.status().secondsUntilLock != nil })
        try user.lock(in: .freshKeyring)
        #expect(try user.status().state == "locked")
        #expect(waiting.wait() == 0)
    }

    @Test("A keybag that cannot be written to is locked when the grace is over")
    func readOnly() throws {
        // Root writes to everything.
        let user = EndToEndUser.canMakeUsers ? try EndToEndUser.made() : try EndToEndUser.caller()
        let transition = user.keybag.directory.appending("transition")
        try user.unlock()
        try #require(chmod(transition.string, 0o400) == 0)
        let done = try user.run(["protectfs", "lock", "--grace", "1"])
        #expect(done.status == 0, "\(done)")
        try #require(chmod(transition.string, 0o600) == 0)
        #expect(try user.search(user.keyName(1)).errors.contains("Required key not available"))
    }

    @Test("A killed command locks all the same, by the kernel's own timeout")
    func killed() throws {
        let user = try EndToEndUser.caller()
        let file = user.home.appending("complete")
        try user.unlock()
        try user.write(file, "complete", [1, 2, 3])
        let waiting = try user.start(["protectfs", "lock", "--grace", "1"])
        #expect(try eventually { try user.status().secondsUntilLock != nil || !waiting.isRunning })
        waiting.end()
        #expect(try eventually { try user.status().state == "locked" })
        try user.expectLocked(file)
    }
}

/// An application that keeps a file open.
@Suite("End to end: open handles", .serialized)
struct EndToEndHandleTests {
    @Test("The user who runs the tests")
    func caller() throws { try handles(of: try EndToEndUser.caller()) }

    @Test("A user made for the test", .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
    func made() throws { try handles(of: try EndToEndUser.made()) }

    /// A `complete` handle says locked on its very next read after a lock in any other session; unlock, and it reads again.
    /// At the least effort it is read in one kind of session, another one each day.
    private func handles(of user: EndToEndUser) throws {
        let bytes = randomBytes(50_000)
        let answer = "ok \(bytes.count) \(checksum(bytes))"
        let (complete, unlessOpen) = (user.home.appending("complete"), user.home.appending("unless-open"))
        try user.unlock()
        try user.write(complete, "complete", bytes)
        try user.write(unlessOpen, "unless-open", bytes)
        for reading in Effort.turn(of: user.sessions) {
            let (one, other) = (try EndToEndReader(user, in: reading), try EndToEndReader(user, in: reading))
            #expect(try one.ask("open r \(complete)") == "ok ")
            #expect(try other.ask("open r \(unlessOpen)") == "ok ")
            for locking in user.sessions {
                #expect(try one.ask("read 0 60000") == answer, "\(reading), \(locking)")
                try user.lock(in: locking)
                let refusal = try one.ask("read 0 60000")
                #expect(refusal.hasPrefix("error locked"), "\(reading), \(locking): \(refusal)")
                #expect(try other.ask("read 0 60000") == answer, "\(reading), \(locking)")
                try user.unlock(in: locking)
            }
            #expect(try one.ask("read 0 60000") == answer, "\(reading)")
        }
    }
}
