import Foundation
import SystemPackage
import Testing

@testable import DataProtection
@testable import ProtectedTrees

/// The upgrade of a directory, file by file.
@Suite struct UpgradeTests {
    private static let text = [UInt8](repeating: 0x63, count: 20_000)

    @Test func everyKindOfFile() async throws {
        let tree = try UpgradeTree()
        let bed = tree.bed
        try tree.plain(["one", "d/two", "d/e/three"], Self.text)
        try tree.plain(["empty"], [])
        try bed.make("weaker", .none, Self.text)
        try bed.make("right", .complete, Self.text)
        try bed.forgeClass(of: bed.make("claimed", .none, Self.text), .complete)
        try bed.path("link").makeSymbolicLink(to: bed.path("one"))
        try bed.path("fifo").makeFIFO()
        #expect(Glibc.link(try bed.makePlain("first", [1]).string, bed.path("second").string) == 0)
        let upgrade = try bed.keybag.upgrade(directory: bed.directory, to: .complete)
        let found = await tree.results(of: upgrade)
        #expect(found["one"] == .converted)
        #expect(found["d/two"] == .converted)
        #expect(found["d/e/three"] == .converted)
        #expect(found["empty"] == .converted)
        #expect(found["weaker"] == .raised(from: .none))
        #expect(found["right"] == .unchanged)
        let claimed = FileFailure.otherKey(bed.path("claimed"), .complete, generation: 1)
        #expect(found["claimed"] == .failed(.because(claimed)))
        #expect(found["link"] == .skipped(.link))
        #expect(found["fifo"] == .skipped(.notRegularFile))
        for name in ["first", "second"] {
            #expect(found[name] == .failed(.hasHardLinks(bed.path(name), count: 2)))
        }
        #expect(found.count == 11)
        let summary = upgrade.summary
        let counts = [summary.converted, summary.raised, summary.unchanged, summary.skipped, summary.queued]
        #expect(counts == [4, 1, 1, 2, 0])
        #expect(summary.failures.map(\.path) == ["claimed", "first", "second"].map(bed.path))
        #expect(summary.lastError == .hasHardLinks(bed.path("second"), count: 2))
        #expect(!summary.isStopped)
        for name in ["one", "d/two", "d/e/three", "weaker"] { #expect(try bed.read(bed.path(name)) == Self.text) }
        for name in ["", "d", "d/e"] { #expect(Keybag.defaultProtection(of: bed.path(name)) == .complete) }
        #expect(try tree.strays() == [])
    }

    /// The names of a directory are anybody's.
    @Test func oddNames() async throws {
        let tree = try UpgradeTree()
        let names: [[UInt8]] = [
            Array("new\nline".utf8), [0xE9, 0xFF], Array("-rf".utf8), Array("tab\t*?[".utf8), Array(" ".utf8),
            [UInt8](repeating: 0x61, count: 255), Array(".hidden".utf8),
        ]
        for name in names {
            let path = tree.bed.directory.appending(FilePath(bytes: name).lastComponent!)
            let file = try LowerFile(path, flags: O_WRONLY | O_CREAT)
            try file.write(name, at: 0)
            try file.close()
        }
        let summary = try await tree.upgraded(to: .complete)
        #expect(summary.converted == names.count)
        #expect(summary.failures == [])
        for name in names {
            let path = tree.bed.directory.appending(FilePath(bytes: name).lastComponent!)
            let file = try ProtectedFile.open(path, keybag: tree.bed.keybag)
            var found = [UInt8](repeating: 0, count: name.count)
            let count = try found.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
            #expect(count == name.count && found == name)
        }
        #expect(try await tree.upgraded(to: .complete).unchanged == names.count)
    }

    /// A second pass needs no key, and reads each file once.
    @Test func whatIsRightIsSeenWithoutAKey() async throws {
        let tree = try UpgradeTree()
        try tree.plain((0..<20).map { "d/\($0)" }, Self.text)
        #expect(try await tree.upgraded(to: .complete).converted == 20)
        try tree.bed.enter(.beforeFirstUnlock)
        for wanted in ProtectionClass.allCases {
            let summary = try await tree.upgraded(to: wanted)
            #expect(summary.unchanged == 20, "never lowered")
        }
        #expect(tree.bed.keybag.queuedWorkCount == 0)
        #expect(try ProtectedFileInfo(of: tree.bed.path("d/1")).protectionClass == .complete)
    }

    @Test func aDryRunChangesNothing() async throws {
        let tree = try UpgradeTree()
        try tree.plain(["a", "d/b"], Self.text)
        try tree.bed.make("c", .none, Self.text)
        var options = UpgradeOptions()
        options.isDryRun = true
        let before = try tree.bed.path("c").contents()
        let summary = try await tree.upgraded(to: .complete, options: options)
        #expect(summary.converted == 2 && summary.raised == 1)
        #expect(try tree.bed.path("a").contents() == Self.text)
        #expect(try tree.bed.path("c").contents() == before)
        #expect(Keybag.defaultProtection(of: tree.bed.path("d")) == nil)
        try tree.bed.enter(.locked)
        #expect(try await tree.upgraded(to: .complete, options: options).queued == 3)
        #expect(tree.bed.keybag.queuedWorkCount == 0)
    }

    @Test func rulesSayWhich() async throws {
        let tree = try UpgradeTree()
        try tree.plain(["mail/1", "mail/old/2", "x.log", "vendor/v", "other"], Self.text)
        let rules = try UpgradeRules("vendor/ -\n*.log unless-open\nmail/** complete")
        let found = await tree.results(
            of: try tree.bed.keybag.upgrade(directory: tree.bed.directory, rules: rules))
        #expect(found["vendor/v"] == .skipped(.rules))
        #expect(found["other"] == .skipped(.rules))
        #expect(try ProtectedFileInfo(of: tree.bed.path("x.log")).protectionClass == .completeUnlessOpen)
        #expect(try ProtectedFileInfo(of: tree.bed.path("mail/old/2")).protectionClass == .complete)
        #expect(Keybag.defaultProtection(of: tree.bed.path("mail/old")) == .complete)
        #expect(Keybag.defaultProtection(of: tree.bed.path("vendor")) == nil)
    }

    /// Who may write to the directory must not say what is protected in it.
    @Test func rulesAreNotReadFromTheirDirectory() throws {
        let tree = try UpgradeTree()
        try tree.plain(["d/rules"], Array("* -\n".utf8))
        let within = try UpgradeRules(contentsOf: tree.bed.path("d/rules"))
        expectError("rulesWithin") {
            _ = try tree.bed.keybag.upgrade(directory: tree.bed.directory, to: .complete, rules: within)
        }
        let link = tree.bed.bag.scratchPath.appending("link")
        try link.makeSymbolicLink(to: tree.bed.path("d/rules"))
        let linked = try UpgradeRules(contentsOf: link)
        expectError("rulesWithin") {
            _ = try tree.bed.keybag.upgrade(directory: tree.bed.path("d"), to: .complete, rules: linked)
        }
    }

    @Test func databases() async throws {
        let tree = try UpgradeTree()
        let magic = Array("SQLite format 3".utf8) + [0] + Self.text
        try tree.plain(["data.db", "inner/x"], magic)
        try tree.plain(["data.db-wal", "data.db-shm", "data.db-journal", "lonely-wal"], Self.text)
        let first = await tree.results(of: try tree.bed.keybag.upgrade(directory: tree.bed.directory, to: .complete))
        for name in ["data.db", "data.db-wal", "data.db-shm", "data.db-journal", "inner/x"] {
            #expect(first[name] == .skipped(.leftOut(.databases)), "\(name)")
        }
        #expect(first["lonely-wal"] == .converted, "there is no database to go with")
        var options = UpgradeOptions()
        options.includes = [.databases]
        let path = tree.bed.path("data.db")
        let second = await tree.results(
            of: try tree.bed.keybag.upgrade(directory: tree.bed.directory, to: .complete, options: options))
        #expect(
            second["data.db"]
                == .failed(.because(FileFailure.databaseInUse(path, holding: tree.bed.path("data.db-wal")))))
        for name in ["data.db-wal", "data.db-shm", "data.db-journal"] {
            #expect(second[name] == .skipped(.leftOut(.databases)), "\(name)")
            try tree.bed.path(name).overwrite([])
        }
        #expect(try path.contents() == magic)
        let third = await tree.results(
            of: try tree.bed.keybag.upgrade(directory: tree.bed.directory, to: .complete, options: options))
        #expect(third["data.db"] == .converted)
        for name in ["data.db-wal", "data.db-shm", "data.db-journal"] {
            #expect(third[name] == .skipped(.leftOut(.databases)), "\(name)")
        }
    }

    /// Programs open these files themselves, and could not use them as ciphertext.
    @Test func whatProgramsNeedIsLeftOut() async throws {
        let tree = try UpgradeTree()
        let stores = [".git/HEAD", ".git/objects/x", "work/.hg/store", "work/.git", "bare/HEAD"]
        try tree.plain(stores + ["bare/objects/x", "bare/refs/x", "HEAD"], Self.text)
        try tree.plain(["bin/script", "bin/text"], Array("#!/bin/sh\n".utf8))
        try tree.plain(["bin/program"], [0x7F, 0x45, 0x4C, 0x46, 2, 1, 1])
        try tree.plain(["bin/photo", "Gemfile", "Gemfile.lock", "lonely.lock"], Self.text)
        for name in ["bin/script", "bin/program", "bin/photo"] { try tree.bed.path(name).setMode(0o755) }
        #expect(mknod(tree.bed.path("socket").string, S_IFSOCK | 0o600, 0) == 0)
        try tree.plain(["socket.lock", "inbox", "dovecot-uidlist.lock"], Array("From a".utf8))
        try tree.plain(["inbox.lock"], Array("4711\n".utf8))
        for isDryRun in [true, false] {
            var options = UpgradeOptions()
            options.isDryRun = isDryRun
            let upgrade = try tree.bed.keybag.upgrade(directory: tree.bed.directory, to: .complete, options: options)
            let found = await tree.results(of: upgrade)
            for name in [".git", "work/.hg", "work/.git", "bare"] {
                #expect(found[name] == .skipped(.leftOut(.versionControl)), "\(name)")
            }
            for name in ["bin/script", "bin/program"] {
                #expect(found[name] == .skipped(.leftOut(.executables)), "\(name)")
            }
            for name in ["socket.lock", "inbox.lock", "dovecot-uidlist.lock"] {
                #expect(found[name] == .skipped(.leftOut(.lockFiles)), "\(name)")
            }
            for name in ["HEAD", "bin/text", "bin/photo", "Gemfile", "Gemfile.lock", "lonely.lock", "inbox"] {
                #expect(found[name] == .converted, "\(name)")
            }
            #expect(found[".git/HEAD"] == nil && found["bare/HEAD"] == nil)
            #expect(upgrade.summary.leftOut == [.versionControl: 4, .executables: 2, .lockFiles: 3])
            #expect(upgrade.summary.skipped == 10, "and the socket")
        }
        for name in stores { #expect(try tree.bed.path(name).contents() == Self.text, "\(name)") }
        #expect(Keybag.defaultProtection(of: tree.bed.path(".git")) == nil)
        let within = try tree.bed.keybag.upgrade(directory: tree.bed.path(".git/objects"), to: .complete)
        for await _ in within {}
        #expect(within.summary.leftOut == [.versionControl: 1] && within.summary.converted == 0)
    }

    @Test func whatIsIncludedIsConverted() async throws {
        let tree = try UpgradeTree()
        try tree.plain([".git/HEAD", "work/.git", "bare/HEAD", "bare/objects/x", "bare/refs/x"], Self.text)
        try tree.plain(["script", "dovecot.lock"], Array("#!/bin/sh\n".utf8))
        try tree.bed.path("script").setMode(0o755)
        for kind in [LeftOut.versionControl, .executables, .lockFiles] {
            var options = UpgradeOptions()
            options.includes = [kind]
            let summary = try await tree.upgraded(to: .complete, options: options)
            #expect(summary.converted == (kind == .versionControl ? 5 : 1), "\(kind)")
        }
        #expect(try await tree.upgraded(to: .complete).failures == [])
    }

    /// What is included is noted too, so that the next unlock does what was asked for.
    @Test func whatIsIncludedIsQueued() async throws {
        let tree = try UpgradeTree()
        try tree.plain([".git/HEAD"], Self.text)
        var options = UpgradeOptions()
        options.includes = [.versionControl, .lockFiles]
        try tree.bed.enter(.locked)
        #expect(try await tree.upgraded(to: .complete, options: options).queued == 1)
        try tree.bed.enter(.unlocked)
        _ = try tree.bed.keybag.performQueuedWork()
        #expect(try ProtectedFileInfo(of: tree.bed.path(".git/HEAD")).protectionClass == .complete)
    }

    /// What a dead process left goes, what a living one makes stays.
    @Test func leftoversGo() async throws {
        let tree = try UpgradeTree()
        try tree.plain(["f", ".gone.protectfs-unfinished-0", "d/.x.y.protectfs-unfinished-12"], Self.text)
        let alive = try LowerFile(try tree.bed.makePlain(".alive.protectfs-unfinished-0", [2]), flags: O_RDONLY)
        #expect(flock(alive.descriptor, LOCK_EX) == 0)
        let summary = try await tree.upgraded(to: .complete)
        #expect(summary.converted == 1)
        #expect(try tree.strays() == [".alive.protectfs-unfinished-0"])
    }

    /// What somebody saves under a name between two calls is theirs, even if a kill leaves it under the temporary name.
    @Test func whatIsNotALeftoverStays() async throws {
        let tree = try UpgradeTree()
        try tree.plain([".f.protectfs-unfinished-1-2", "old"], Self.text)
        let inode = try #require(try tree.bed.path("old").status()).st_ino
        #expect(rename(tree.bed.path("old").string, tree.bed.path(".f.protectfs-unfinished-\(inode)-3").string) == 0)
        let summary = try await tree.upgraded(to: .complete)
        #expect(summary.converted == 1)
        #expect(try tree.strays() == [".f.protectfs-unfinished-1-2"])
        #expect(try tree.bed.read(tree.bed.path(".f.protectfs-unfinished-1-2")) == Self.text)
    }

    @Test func busyAndUnreadableFilesFailAndTheOthersAreDone() async throws {
        let tree = try UpgradeTree()
        try tree.plain(["a", "b", "c"], Self.text)
        let writer = try FileDescriptor.open(tree.bed.path("b"), .writeOnly)
        #expect(fcntl(writer.rawValue, F_SETFD, FD_CLOEXEC) == 0, "no process of another test keeps it open")
        try tree.bed.make("d", .none, Self.text)
        try tree.bed.path("d").damage(at: 100)
        let summary = try await tree.upgraded(to: .complete)
        #expect(summary.converted == 2)
        #expect(summary.failures.map(\.error.caseName) == ["busy", "damaged"])
        try writer.close()
        #expect(try await tree.upgraded(to: .complete).converted == 1)
    }

    /// A file that cannot be done is named to whoever sees it, and is no reason to read the tree after every unlock.
    @Test func aQueuedUpgradeThatFails() async throws {
        let tree = try UpgradeTree()
        let keybag = tree.bed.keybag
        try tree.plain(["a", "b", "c"], Self.text)
        for name in ["a", "b"] { #expect(link(tree.bed.path(name).string, tree.bed.path("\(name)-too").string) == 0) }
        try tree.bed.enter(.locked)
        #expect(try await tree.upgraded(to: .complete).queued == 1)
        #expect(keybag.queuedWorkCount == 1)
        try tree.bed.enter(.unlocked)
        let background = try keybag.performQueuedWork(keepingLost: true)
        #expect(background.count == 4 && background.allSatisfy { $0.error == "hasHardLinks" })
        #expect(try ProtectedFileInfo(of: tree.bed.path("c")).protectionClass == .complete)
        #expect(try keybag.queuedWork().map { $0.lastError != nil } == [true], "it stays, with the error")
        #expect(try keybag.performQueuedWork(keepingLost: true) == [], "not again today")
        let seen = try keybag.performQueuedWork()
        #expect(seen.count == 4 && seen.allSatisfy { $0.error == "hasHardLinks" })
        #expect(keybag.queuedWorkCount == 0)
    }

    /// What was done by hand is not done again by the next unlock.
    @Test func anUpgradeByHandTakesItsNote() async throws {
        let tree = try UpgradeTree()
        try tree.plain(["a"], Self.text)
        let rules = try UpgradeRules("a complete")
        let byRules = { try tree.bed.keybag.upgrade(directory: tree.bed.directory, rules: rules) }
        try tree.bed.enter(.locked)
        #expect(try await tree.upgraded(to: .complete).queued == 1)
        #expect(await tree.results(of: try byRules()) == ["a": .queued])
        #expect(tree.bed.keybag.queuedWorkCount == 2)
        try tree.bed.enter(.unlocked)
        var options = UpgradeOptions()
        options.isDryRun = true
        _ = try await tree.upgraded(to: .complete, options: options)
        #expect(tree.bed.keybag.queuedWorkCount == 2)
        #expect(try await tree.upgraded(to: .complete).converted == 1)
        #expect(tree.bed.keybag.queuedWorkCount == 1, "only its own")
        #expect(await tree.results(of: try byRules()) == ["a": .unchanged])
        #expect(tree.bed.keybag.queuedWorkCount == 0)
    }

    /// What ssh, shells and protectfs need is left out, wherever it is.
    @Test func whatIsNeededToUnlockStays() async throws {
        let tree = try UpgradeTree()
        let unit = ".config/systemd/user/protectfs-agent.service"
        try tree.plain([".ssh/id", ".bashrc", ".config/fish/config.fish", unit, ".config/app/x"], Self.text)
        let found = await tree.results(of: try tree.bed.keybag.upgrade(directory: tree.bed.directory, to: .complete))
        #expect(found.filter { $0.value == .converted }.keys.sorted() == [".config/app/x"])
        for name in [".ssh", ".bashrc", ".config/fish", ".config/systemd"] {
            guard case .skipped(.needed) = found[name] else {
                Issue.record("\(name)")
                continue
            }
        }
        let keybag = await tree.results(
            of: try tree.bed.keybag.upgrade(directory: tree.bed.keybag.directory, to: .none))
        #expect(keybag.count == 1)
    }

    /// Who wants it to end gets the files in hand finished, or as they were; the next one goes on.
    @Test func anEndInTheMiddle() async throws {
        let tree = try UpgradeTree()
        try tree.plain((0..<300).map { "\($0)" }, Self.text)
        let pass = try UpgradePass(
            tree.bed.keybag, tree.bed.directory, to: .complete, rules: nil, options: UpgradeOptions())
        let stop = StopFlag()
        let goOn: @Sendable () -> Bool = { !stop.isSet }
        let summary = pass.run(while: goOn) { result in if result.outcome == .converted { stop.set() } }
        #expect(summary.isStopped)
        #expect(summary.converted > 0 && summary.converted < 300)
        #expect(summary.failures == [])
        let rest = try await tree.upgraded(to: .complete)
        #expect(rest.converted + rest.unchanged == 300)
        #expect(try tree.strays() == [])
    }

    /// A summary that was cancelled is not taken for a whole one, however early it is asked for.
    @Test func theTaskIsCancelled() async throws {
        let tree = try UpgradeTree()
        try tree.plain((0..<300).map { "\($0)" }, Self.text)
        let (keybag, directory) = (tree.bed.keybag, tree.bed.directory)
        let task = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await keybag.upgradeAtLaunch(directory, to: .complete)
        }
        task.cancel()
        #expect(try await task.value.isStopped)
    }

    /// Leaving the loop leaves no thread that waits for somebody to take results.
    @Test func theLoopIsLeft() async throws {
        let tree = try UpgradeTree()
        try tree.plain((0..<50).map { "\($0)" }, Self.text)
        for await _ in try tree.bed.keybag.upgrade(directory: tree.bed.directory, to: .complete) { break }
        let rest = try await tree.upgraded(to: .complete)
        #expect(rest.converted + rest.unchanged + rest.failures.count == 50)
    }

    @Test func atLaunch() async throws {
        let tree = try UpgradeTree()
        try tree.plain((0..<5).map { "\($0)" }, Self.text)
        #expect(try await tree.bed.keybag.upgradeAtLaunch(tree.bed.directory, to: .complete).converted == 5)
        #expect(try await tree.bed.keybag.upgradeAtLaunch(tree.bed.directory, to: .complete).unchanged == 5)
    }

    #if compiler(>=6.3)
        @Test("Where the system makes no thread all is done before the first result is taken, however many there are")
        func noThread() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bag = try TestKeybag(state: .unlocked)
                let directory = home.appending("files")
                try OwnDirectory.make(directory)
                // More than are done ahead of the results.
                for number in 0..<1100 { try directory.appending("\(number)").overwrite([1]) }
                try AnotherUser.forbidThreads()
                let upgrade = try bag.keybag.upgrade(directory: directory, to: .complete)
                let iterator = upgrade.makeAsyncIterator()
                let converted = upgrade.summary.converted
                withExtendedLifetime(iterator) {}
                try bag.keybag.evictEverything()
                try home.remove()
                exit(converted == 1100 ? 0 : 1)
            }
        }
    #endif

    @Test func noDirectory() throws {
        let tree = try UpgradeTree()
        try tree.plain(["f"], [1])
        for name in ["f", "missing"] {
            expectError("system") { _ = try tree.bed.keybag.upgrade(directory: tree.bed.path(name), to: .complete) }
        }
    }
}

extension FilePath {
    fileprivate func damage(at offset: Int) throws {
        var bytes = try contents()
        for index in [offset, offset + 4096] { bytes[index] ^= 1 }
        try overwrite(bytes)
    }
}

extension QueuedWorkResult {
    fileprivate var error: String? { if case .failed(let error) = outcome { error.caseName } else { nil } }
}
