import SystemPackage
import Testing

@Suite("End to end: a backup of one user, restored by another")
struct EndToEndBackupTests {
    @Test(
        "With another device key, keybag and uid; the first user's keys are nowhere then",
        .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
    func anotherUser() throws {
        let (ann, bob) = (try EndToEndUser.made(), try EndToEndUser.made())
        try ann.unlock()
        var expected: [(name: String, bytes: [UInt8])] = []
        let files = ann.home.appending("files")
        #expect(try ann.run(["mkdir", files.string]).status == 0)
        for name in EndToEndUser.classes {
            expected.append((name, randomBytes(100_000)))
            try ann.write(files.appending(name), name, expected.last!.bytes)
        }
        // One that opens only while unlocked; later, while locked, one that opens then too; one that must not leave this device.
        func secret(_ user: EndToEndUser, _ words: String..., value: String = "") throws -> EndToEndRun {
            try user.run(["protectfs", "secret"] + words, input: Array(value.utf8))
        }
        #expect(try secret(ann, "add", "--account", "first", value: "value of first").status == 0)
        let here = ["--accessibility", "when-unlocked-this-device-only"]
        #expect(try secret(ann, "add", "--account", "here", here[0], here[1], value: "stays").status == 0)
        let backup = ann.home.appending("backup")
        let made = try ann.run(
            ["protectfs", "backup", "--to", backup.string, "--passphrase-fd", "0"],
            input: Array("the passphrase of ann\n".utf8))
        #expect(made.status == 0, "\(made)")
        try ann.lock()
        let after = ["--accessibility", "after-first-unlock"]
        #expect(try secret(ann, "add", "--account", "later", after[0], after[1], value: "value of later").status == 0)
        let copied = try ann.run(["protectfs", "backup", "--to", backup.string, files.string])
        #expect(copied.status == 0, "\(copied)")

        // Carried to another machine: all that goes with it is the backup.
        let carried = bob.home.appending("carried")
        let moved = try EndToEndRun(["cp", "-a", backup.string, carried.string], environment: bob.environment)
        #expect(moved.status == 0)
        try bob.give(carried)
        for path in [ann.home.appending(".local"), files, backup] {
            let gone = try EndToEndRun(["rm", "-rf", path.string], environment: bob.environment)
            #expect(gone.status == 0)
        }
        #expect(try ann.run(["keyctl", "clear", "@u"]).status == 0)

        try bob.unlock()
        let target = bob.home.appending("target")
        let restored = try bob.run(
            ["protectfs", "restore", carried.string, "--to", target.string, "--passphrase-fd", "0"],
            input: Array("the passphrase of ann\n".utf8))
        #expect(restored.status == 0, "\(restored)")
        let place = target.appending(files.components)
        for (name, bytes) in expected {
            let read = try bob.run(["protectfs", "cat", place.appending(name).string])
            #expect(read.output == bytes, "\(name): \(read)")
            let owner = try bob.run(["stat", "-c", "%U", place.appending(name).string])
            #expect(owner.output == Array("\(bob.name)\n".utf8))
        }
        #expect(try secret(bob, "get", "--account", "first").output == Array("value of first\n".utf8))
        #expect(try secret(bob, "get", "--account", "here").status == 66)
        try bob.lock()
        #expect(try secret(bob, "get", "--account", "first").status == 75)
        #expect(try secret(bob, "get", "--account", "later").output == Array("value of later\n".utf8))
        try bob.expectLocked(place.appending("complete"))
    }
}
