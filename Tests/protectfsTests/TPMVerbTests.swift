import Foundation
import TestTPM
import Testing

/// The command against swtpm(8): the protocol of a TPM, not its protection.
@Suite(
    "tpm",
    .enabled(
        if: EmulatedTPM.whyNot == nil, "swtpm or tpm2-tools is missing: \(EmulatedTPM.whyNot ?? "")"))
struct TPMVerbTests {
    private let emulator: EmulatedTPM
    private let sandbox: CommandSandbox
    private static let passcode = Data(CommandSandbox.passcode.utf8)

    init() throws {
        emulator = try EmulatedTPM()
        try emulator.limit(tries: 31, seconds: 600)
        sandbox = try CommandSandbox(variables: Self.variables(emulator))
    }

    private static func variables(_ emulator: EmulatedTPM) -> [String: String] {
        ["PROTECTFS_TEST_SWTPM_PORT": "\(emulator.port)"]
    }

    /// Binds the sandbox's keybag, which has no recovery code.
    private func enroll() throws {
        let done = try sandbox.run(
            "tpm", "enroll", "--keep-keys", "--no-recovery-code", "--passcode-fd", "3",
            passcodes: Self.passcode)
        guard done.status == 0 else { throw CommandSandbox.Unexpected(done.errors) }
    }

    private func unlock(_ passcode: String = CommandSandbox.passcode) throws -> Finished {
        try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data(passcode.utf8))
    }

    private func expect(
        _ status: Int32, _ words: String, _ done: Finished,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(done.status == status, sourceLocation: sourceLocation)
        #expect(done.errors.contains(words), "\(done.errors)", sourceLocation: sourceLocation)
    }

    private var isPending: Bool { access(sandbox.keybagDirectory + "/hardware-pending", F_OK) == 0 }

    @Test(
        "Enrolled, the keybag opens with its passcode and this TPM; status says how many tries are left"
    )
    func enrolled() throws {
        expect(66, "is not bound to a TPM", try sandbox.run("tpm", "remove"))
        let before = try sandbox.run("tpm", "status")
        #expect(
            (before.status, before.text.hasPrefix("not bound\nvirtual TPM (IBM), tries left 31 of 31"))
                == (66, true))
        expect(77, "has no recovery code", try sandbox.run("tpm", "enroll", "--keep-keys"))
        try enroll()
        #expect(try emulator.indices().count == 1 && !isPending)
        expect(73, "is bound to a TPM already", try sandbox.run("tpm", "enroll", "--no-recovery-code"))
        #expect(try unlock().errors.isEmpty || unlock().status == 0)
        #expect(try sandbox.run("status").text.contains("unlocked"))
        let wrong = try unlock("wrong")
        expect(77, "wrong passcode", wrong)
        #expect(
            !wrong.errors.contains("TPM") && !wrong.errors.contains("WARNING"),
            "the library prints nothing")
        #expect(
            try sandbox.run("status").text.contains(
                "hardware: virtual TPM (IBM), tries left 30 of 31, one back every 10 min"))
        let json = try #require(try sandbox.run("tpm", "status", "--json").json() as? [String: Any])
        let hardware = try #require(json["hardware"] as? [String: Any])
        #expect(json["bound"] as? Bool == true && hardware["triesLeft"] as? Int == 30)
        #expect(
            hardware["oneTryAfter"] as? Int == 600 && hardware["countHasPassword"] as? Bool == false)
        let removed = try sandbox.run("tpm", "remove", "--passcode-fd", "3", passcodes: Self.passcode)
        #expect(removed.status == 0 && removed.errors.isEmpty)
        #expect(try emulator.indices() == [] && !isPending)
        emulator.end()
        #expect(try unlock().status == 0)
    }

    @Test("Enrolling rotates: a copy of the keybag from before opens no file with the passcode alone")
    func rotates() throws {
        #expect(
            try sandbox.run("recovery", "new", "--passcode-fd", "3", passcodes: Self.passcode).status == 0
        )
        expect(75, "locked", try sandbox.run("tpm", "enroll"))
        try sandbox.unlock()
        let write = try sandbox.run("write", "--class", "complete", "diary", input: Data("secret".utf8))
        #expect(write.status == 0)
        let copy = sandbox.root + "/copy"
        try FileManager.default.copyItem(atPath: sandbox.keybagDirectory, toPath: copy)
        let done = try sandbox.run(
            "tpm", "enroll", "--root", sandbox.root, "--passcode-fd", "3", passcodes: Self.passcode)
        #expect(done.status == 0, "\(done.errors)")
        #expect(
            done.text.split(separator: "\n").first?.filter { $0 == "-" }.count == 7, "a new recovery code"
        )
        #expect(done.errors.contains("anybody with this machine can reset the TPM's count"))
        #expect(try sandbox.run("cat", "diary").text == "secret")
        #expect(try sandbox.run("lock").status == 0)
        let old = try sandbox.run(
            "unlock", "--keybag", copy, "--passcode-fd", "3", passcodes: Self.passcode)
        #expect(old.status == 0 && old.errors.contains("is an older copy of the keybag"), "\(old.errors)")
        #expect(try sandbox.run("cat", "--keybag", copy, "diary").status != 0)
        #expect(try sandbox.run("lock", "--keybag", copy).status == 0)
        #expect(try unlock().status == 0)
        #expect(try sandbox.run("cat", "diary").text == "secret")
        // The recovery code needs no TPM, and what it sets does not either.
        let code = try #require(done.text.split(separator: "\n").first)
        let recovered = try sandbox.run(
            "passcode", "--with-recovery-code", "--recovery-code-fd", "3", "--new-passcode-fd", "3",
            passcodes: Data("\(code)\nanother passcode of mine\n".utf8))
        expect(0, "the keybag is no longer bound to the TPM", recovered)
        #expect(try sandbox.run("tpm", "status").text.hasPrefix("not bound"))
    }

    @Test("init --tpm makes a bound keybag, and none if there is no TPM; erase destroys the secret")
    func initialized() throws {
        let new = sandbox.root + "/new"
        func make(_ words: String...) throws -> Finished {
            try sandbox.run(
                ["init", "--tpm", "--keybag", new, "--passcode-fd", "3"] + words, passcodes: Self.passcode)
        }
        expect(64, "--tpm needs --recovery-code", try make())
        emulator.end()
        #expect(try make("--recovery-code").status == 74)
        #expect(access(new, F_OK) != 0)
        try emulator.startAgain()
        let made = try make("--recovery-code")
        #expect(made.status == 0, "\(made.errors)")
        #expect(try emulator.indices().count == 1)
        #expect(try sandbox.run("status", "--keybag", new).text.contains("hardware: virtual TPM"))
        let opened = try sandbox.run(
            "unlock", "--keybag", new, "--passcode-fd", "3", passcodes: Self.passcode)
        #expect(opened.status == 0)
        #expect(try sandbox.run("erase", "--yes", "--keybag", new).status == 0)
        #expect(try emulator.indices() == [] && access(new, F_OK) != 0)
    }

    @Test("At a terminal init offers the TPM to whoever takes a recovery code", arguments: ["", "n"])
    func offered(answer: String) throws {
        let sandbox = try CommandSandbox(makesKeybag: false, variables: Self.variables(emulator))
        let seen = try PseudoTerminal.run(
            ["init"], in: sandbox,
            [
                .expect("New passcode: "), .send("one\n"), .expect("Again: "), .send("one\n"), .expect("[Y/n] "),
                .send("\n"), .expect("Bind to this machine's TPM? [Y/n] "), .send(answer + "\n"),
                .expect("type group "), .expect(": "), .confirmGroup,
            ])
        #expect(seen.status == 0, "\(seen.shown)")
        #expect(try emulator.indices().count == (answer == "n" ? 0 : 1))
        let status = try sandbox.run("status").text
        #expect(status.contains("hardware: virtual TPM") == (answer != "n"))
        #expect(status.contains("recovery code: there is one"))
    }

    @Test("The owner password of the TPM is asked for at a terminal by verbs that change its secrets, and by no other")
    func ownerPassword() throws {
        let context = sandbox.root + "/context"
        try emulator.run("createprimary", "-C", "o", "-G", "ecc", "-c", context)
        try emulator.run("evictcontrol", "-C", "o", "-c", context, "0x81000001")
        try emulator.flush()
        try emulator.run("changeauth", "-c", "owner", "word")
        func type(_ words: [String], _ answers: [PseudoTerminal.Step]) throws {
            let seen = try PseudoTerminal.run(words, in: sandbox, answers)
            #expect(seen.status == 0 && !seen.shown.contains("no longer needs"), "\(words): \(seen.shown)")
        }
        let passcode = [PseudoTerminal.Step.expect("asscode: "), .send(CommandSandbox.passcode + "\n")]
        let new = [PseudoTerminal.Step.expect("asscode: "), .send("new\n")]
        let owner = [PseudoTerminal.Step.expect("Owner password of the TPM: "), .send("word\n")]
        let nobody = [PseudoTerminal.Step.expect("Owner password of the TPM: "), .send("\n")]

        let unasked = try sandbox.run(
            "tpm", "enroll", "--keep-keys", "--no-recovery-code", "--passcode-fd", "3", passcodes: Self.passcode)
        expect(77, "the owner hierarchy of the TPM has a password", unasked)
        let enroll = ["tpm", "enroll", "--keep-keys", "--no-recovery-code"]
        let refused = try PseudoTerminal.run(enroll, in: sandbox, nobody)
        #expect(refused.status == 77 && !isPending, "\(refused.shown)")
        let wrong = [PseudoTerminal.Step.expect("Owner password of the TPM: "), .send("wrong\n")]
        let thrice = try PseudoTerminal.run(enroll, in: sandbox, wrong + wrong + wrong)
        #expect(thrice.status == 77 && thrice.shown.contains("Wrong password. Owner"), "\(thrice.shown)")
        try type(enroll, wrong + owner + passcode)
        #expect(try emulator.indices().count == 1 && !isPending)
        try type(["unlock"], passcode)
        let twice = [PseudoTerminal.Step.expect("New passcode: "), .send("new\n"), .expect("Again: "), .send("new\n")]
        try type(["passcode"], owner + passcode + twice)
        #expect(try emulator.indices().count == 1 && unlock("new").status == 0)

        // What is left in the TPM stays until somebody gives the password; nobody who unlocks is asked.
        let released = try PseudoTerminal.run(["tpm", "remove"], in: sandbox, nobody + new)
        #expect(released.status == 0 && released.shown.contains("warning") && isPending, "\(released.shown)")
        let unlocked = try PseudoTerminal.run(["unlock"], in: sandbox, new)
        #expect(unlocked.status == 0 && !unlocked.shown.contains("Owner"), "\(unlocked.shown)")
        #expect(try emulator.indices().count == 1 && isPending)
        let again = [PseudoTerminal.Step.expect("New passcode: "), .send("new\n"), .expect("Again: "), .send("new\n")]
        try type(["passcode"], owner + new + again)
        #expect(try emulator.indices() == [] && !isPending)
        try type(enroll, owner + new)
        try type(["tpm", "remove"], owner + new)
        #expect(try emulator.indices() == [] && !isPending)
        try type(enroll, owner + new)
        try type(["erase"], [.expect("type erase: "), .send("erase\n")] + owner)
        #expect(try emulator.indices() == [])
    }

    @Test(
        "Another TPM, a cleared one, a secret that is gone and an older keybag have a message each, and cost no try"
    )
    func refusals() throws {
        try enroll()
        let older = sandbox.root + "/older"
        try FileManager.default.copyItem(atPath: sandbox.keybagDirectory + "/keybag.0", toPath: older)
        try sandbox.unlock()
        let changed = try sandbox.run(
            "passcode", "--passcode-fd", "3", "--new-passcode-fd", "3",
            passcodes: Data("\(CommandSandbox.passcode)\nnew passcode\n".utf8))
        #expect(changed.status == 0, "\(changed.errors)")
        #expect(try emulator.indices().count == 1)

        let newer = try Data(contentsOf: URL(fileURLWithPath: sandbox.keybagDirectory + "/keybag.0"))
        func put(_ bytes: Data) throws {
            for name in ["keybag.0", "keybag.1"] {
                try bytes.write(to: URL(fileURLWithPath: sandbox.keybagDirectory + "/" + name))
            }
        }
        try put(Data(contentsOf: URL(fileURLWithPath: older)))
        expect(66, "an older copy was put back", try unlock())
        #expect(try sandbox.run("tpm", "status").text.contains("an older copy was put back"))
        try put(newer)
        #expect(try unlock("new passcode").status == 0)

        let other = try EmulatedTPM()
        let elsewhere = try sandbox.shell(
            "PROTECTFS_TEST_SWTPM_PORT=\(other.port) \"$PROTECTFS\" unlock --passcode-fd 0",
            input: Data("new passcode".utf8))
        expect(66, "bound to another TPM, or this one was cleared", elsewhere)
        #expect(try other.failedTries() == 0)

        let index = try #require(try emulator.indices().first)
        try emulator.run("nvundefine", "0x\(String(index, radix: 16))")
        expect(66, "it was destroyed", try unlock("new passcode"))
        #expect(try sandbox.run("tpm", "status").text.contains("it was destroyed"))
        #expect(try sandbox.run("doctor").text.contains("it was destroyed"))
        try emulator.run("clear")
        expect(66, "bound to another TPM, or this one was cleared", try unlock("new passcode"))
        #expect(try sandbox.run("tpm", "status").text.contains("this one was cleared"))
        #expect(try emulator.failedTries() == 0)
        let record = try sandbox.run("status", "--json")
        #expect(record.text.contains("\"retryAfter\": 0") || record.text.contains("\"retryAfter\":0"))
    }

    @Test("With a full TPM a change is refused and names the way: release the keybag, change it, bind it again")
    func full() throws {
        try enroll()
        try sandbox.unlock()
        _ = try emulator.fill()
        func change(_ passcodes: String) throws -> Finished {
            try sandbox.run("passcode", "--passcode-fd", "3", "--new-passcode-fd", "3", passcodes: Data(passcodes.utf8))
        }
        let refused = try change("\(CommandSandbox.passcode)\nnew")
        expect(77, "has no room", refused)
        #expect(refused.errors.contains("release the keybag first: protectfs tpm remove"), "\(refused.errors)")
        #expect(try emulator.indices().count == 1 && !isPending)
        #expect(try unlock().status == 0)
        #expect(try sandbox.run("tpm", "remove", "--passcode-fd", "3", passcodes: Self.passcode).status == 0)
        #expect(try change("\(CommandSandbox.passcode)\nnew").status == 0)
        #expect(try change("new\n\(CommandSandbox.passcode)").status == 0)
        try enroll()
        #expect(try emulator.indices().count == 1 && !isPending)
        #expect(try unlock().status == 0)
    }

    @Test("Locked out, the right passcode is refused with 75, is no failure, and opens again later")
    func lockout() throws {
        try emulator.limit(tries: 3, seconds: 2)
        try enroll()
        for number in 0..<3 { expect(77, "wrong passcode", try unlock("wrong \(number)")) }
        let refused = try unlock()
        expect(75, "accepts no passcode", refused)
        #expect(refused.errors.contains("not even the right one"))
        #expect(try sandbox.run("status").text.contains("accepts no passcode now"))
        var status: Int32 = 75
        for _ in 0..<100 where status == 75 {
            usleep(100_000)
            status = try unlock().status
        }
        #expect(status == 0)
    }

    @Test("One wrong passcode forty times, as a login does with a stale one, is one try")
    func stale() throws {
        try enroll()
        for _ in 0..<40 { expect(77, "(1 wrong in a row)", try unlock("stale")) }
        #expect(try emulator.failedTries() == 1)
        #expect(try unlock().status == 0)
    }

    @Test("Without the library everything else works, and the error names it; without a TPM likewise")
    func withoutLibrary() throws {
        // What is no library stands in front of it.
        let directory = sandbox.root + "/libraries"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        try Data().write(to: URL(fileURLWithPath: directory + "/libtss2-esys.so.0"))
        let hidden = "LD_LIBRARY_PATH='\(directory)' \"$PROTECTFS\""
        let plain = try sandbox.shell("\(hidden) unlock --passcode-fd 0", input: Self.passcode)
        #expect(plain.status == 0, "\(plain.errors)")
        expect(
            69, "libtss2-esys.so.0 is not installed",
            try sandbox.shell("\(hidden) tpm enroll --no-recovery-code"))
        try enroll()
        let bound = try sandbox.shell("\(hidden) unlock --passcode-fd 0", input: Self.passcode)
        expect(69, "libtss2-esys.so.0 is not installed", bound)
        let status = try sandbox.shell("\(hidden) status")
        #expect(status.status == 0 && status.text.contains("libtss2-esys.so.0"))
        guard access("/dev/tpmrm0", F_OK) != 0 else { return }
        let without = try sandbox.shell(
            "unset PROTECTFS_TEST_SWTPM_PORT; \"$PROTECTFS\" unlock --passcode-fd 0", input: Self.passcode
        )
        expect(69, "'/dev/tpmrm0' is not there", without)
        #expect(try unlock().status == 0)
    }

    @Test("doctor says when the count of wrong passcodes can be reset, and when all is well")
    func doctor() throws {
        func line() throws -> String? {
            try sandbox.run("doctor").text.split(separator: "\n").first { $0.contains("tpm: ") }.map(
                String.init)
        }
        #expect(try line()?.contains("to bind the keybag to it: protectfs tpm enroll") == true)
        try enroll()
        #expect(try line()?.contains("anybody with this machine can reset its count") == true)
        try emulator.run("changeauth", "-c", "lockout", "code")
        #expect(
            try line()?.contains("the keybag is bound: virtual TPM (IBM), tries left 31 of 31") == true)
        emulator.end()
        #expect(try line()?.hasPrefix("problem") == true)
    }

    @Test(
        "Killed at any moment of a change of the passcode, the old or the new one opens, and one secret is there"
    )
    func killed() throws {
        try enroll()
        try sandbox.unlock()
        var current = CommandSandbox.passcode
        for round in 0..<12 {
            let new = "passcode \(round)"
            let passcodes = sandbox.root + "/passcodes"
            try Data("\(current)\n\(new)\n".utf8).write(to: URL(fileURLWithPath: passcodes))
            let input = try FileHandle(forReadingFrom: URL(fileURLWithPath: passcodes))
            let process = sandbox.start(
                CommandSandbox.executable, ["passcode", "--passcode-fd", "0", "--new-passcode-fd", "0"],
                input: input)
            process.standardError = FileHandle.nullDevice
            try process.run()
            usleep(UInt32(20_000 + 25_000 * round))
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            // A kernel would do that for a dead process.
            try emulator.flush()
            if try unlock(new).status == 0 {
                current = new
            } else {
                #expect(try unlock(current).status == 0)
            }
            #expect(try emulator.indices().count == 1, "round \(round)")
            #expect(!isPending, "round \(round)")
        }
    }

    @Test(
        "If the TPM goes at any moment of a change, the old or the new passcode opens when it is back")
    func torn() throws {
        try enroll()
        try sandbox.unlock()
        var current = CommandSandbox.passcode
        for round in 0..<6 {
            let new = "passcode \(round)"
            let passcodes = sandbox.root + "/passcodes"
            try Data("\(current)\n\(new)\n".utf8).write(to: URL(fileURLWithPath: passcodes))
            let input = try FileHandle(forReadingFrom: URL(fileURLWithPath: passcodes))
            let process = sandbox.start(
                CommandSandbox.executable, ["passcode", "--passcode-fd", "0", "--new-passcode-fd", "0"],
                input: input)
            process.standardError = FileHandle.nullDevice
            try process.run()
            usleep(UInt32(60_000 + 40_000 * round))
            emulator.end()
            process.waitUntilExit()
            try emulator.startAgain()
            if try unlock(new).status == 0 {
                current = new
            } else {
                #expect(try unlock(current).status == 0)
            }
            #expect(try emulator.indices().count == 1, "round \(round)")
            #expect(!isPending, "round \(round)")
        }
    }
}
