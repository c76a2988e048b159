import Foundation
import Testing

/// What is said when a keybag is too old, without its device key, or gone.
@Suite("Diagnoses of a keybag")
struct KeybagDiagnosisTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    private func explain(_ path: String) throws -> [String: Any] {
        try #require((try sandbox.run("explain", "--json", path).json() as? [[String: Any]])?.first)
    }

    /// The finding of a check of `doctor`, which says that something is wrong.
    private func finding(_ check: String) throws -> [String: Any] {
        let done = try sandbox.run("doctor", "--json")
        #expect(done.status == 78, "\(done.errors)")
        let findings = try #require(try done.json() as? [[String: Any]])
        return try #require(findings.first { $0["check"] as? String == check })
    }

    @Test("Yesterday's keybag put back after a rotation: explain, doctor, status and lock say so, and how to restore")
    func olderKeybag() throws {
        try sandbox.put("x", at: "tree/plain")
        try sandbox.protectedFile("old")
        #expect(try sandbox.shell("cp -a keybag saved").status == 0)
        let rotated = try sandbox.run(
            "rotate", "--root", "tree", "--passcode-fd", "3", passcodes: Data(CommandSandbox.passcode.utf8))
        #expect(rotated.status == 0, "\(rotated.errors)")
        try sandbox.protectedFile("new")
        #expect(try sandbox.shell("cp saved/keybag.0 saved/keybag.1 keybag/").status == 0)

        let entry = try explain("new")
        let actions = try #require(entry["actions"] as? [[String: Any]])
        #expect(actions.first { $0["action"] as? String == "read" }?["possible"] as? Bool == false)
        #expect((entry["wouldHelp"] as? String)?.contains("protectfs recovery restore") == true)
        #expect(try sandbox.run("cat", "new").status == 66, "as it was said")
        let found = try finding("keybag")
        #expect(found["level"] as? String == "problem")
        #expect((found["fix"] as? String)?.contains("protectfs recovery restore") == true)
        for verb in ["status", "lock"] {
            let done = try sandbox.run(verb)
            #expect(done.status == 0)
            #expect(done.errors.contains("an older copy of the keybag was put back"), "\(verb): \(done.errors)")
            #expect(!done.errors.contains("interrupted"), "\(verb): \(done.errors)")
        }
    }

    @Test(
        "An interrupted rotation: doctor, status and lock say to lock and unlock, and not to move or replace the keybag",
        .enabled(if: SystemCallTrace.isPossible, SystemCallTrace.whyNot))
    func interruptedRotation() throws {
        try sandbox.protectedFile("file")
        try sandbox.put("x", at: "tree/plain")
        try sandbox.put(CommandSandbox.passcode, at: "passcode")
        // The keyring has the new keys by then.
        let killed = try sandbox.shell(
            """
            strace -f -qq -o /dev/null -P '\(sandbox.keybagDirectory)/keybag.new' -e trace=rename \
                -e inject=rename:signal=KILL "$PROTECTFS" rotate --root tree --passcode-fd 3 3<passcode
            """)
        #expect(killed.status == 137, "\(killed.errors)")
        #expect(try sandbox.run("cat", "file").status == 0)

        let found = try finding("keybag")
        #expect(found["level"] as? String == "problem")
        var hints = [found["fix"] as? String ?? ""]
        for verb in ["status", "lock"] {
            let done = try sandbox.run(verb)
            #expect(done.status == 0)
            #expect(done.errors.contains("a rotation was interrupted"), "\(verb): \(done.errors)")
            hints.append(done.errors)
        }
        for hint in hints {
            #expect(hint.contains("protectfs lock, then protectfs unlock"), "\(hint)")
            for word in ["move", "restore", "older copy"] { #expect(!hint.contains(word), "\(hint)") }
        }

        try sandbox.unlock()
        #expect(try sandbox.run("status").errors == "")
        #expect(try sandbox.run("cat", "file").status == 0)
        let again = try sandbox.run(
            "rotate", "--root", ".", "--passcode-fd", "3", passcodes: Data(CommandSandbox.passcode.utf8))
        #expect(again.status == 0, "\(again.errors)")
        #expect(try sandbox.run("status").errors == "")
        #expect(try sandbox.run("cat", "file").status == 0)
    }

    @Test(
        "The device key deleted while unlocked: files can still be saved, and that is said", arguments: [false, true])
    func deviceKeyDeleted(hasCode: Bool) throws {
        if hasCode { _ = try sandbox.makeRecoveryCode() }
        try sandbox.protectedFile("file")
        #expect(try sandbox.run("status").errors == "")
        try FileManager.default.removeItem(atPath: sandbox.path("state/protectfs/device-key"))
        let way = hasCode ? "protectfs passcode --with-recovery-code" : "protectfs cat FILE > COPY"
        let status = try sandbox.run("status")
        #expect(status.status == 0)
        #expect(status.errors.contains("no passcode opens the keybag, and files can be read only until the next lock"))
        #expect(status.errors.contains("hint: ") && status.errors.contains(way), "\(status.errors)")
        let found = try finding("device key")
        #expect((found["fix"] as? String)?.contains(way) == true)
        #expect(try sandbox.run("cat", "file").status == 0, "as it was said")
        let lock = try sandbox.run("lock")
        #expect(lock.status == 0)
        #expect(lock.errors.contains("no passcode opens the keybag\n"), "\(lock.errors)")
    }

    @Test("The keybag's directory deleted: the hint is to restore it, and never to make a new one")
    func directoryDeleted() throws {
        try sandbox.protectedFile("file")
        #expect(try sandbox.shell("mv keybag away").status == 0)
        defer { _ = try? sandbox.shell("mv away keybag") }
        let status = try sandbox.run("status")
        #expect(status.status == 66)
        let explained = try explain("file")["wouldHelp"] as? String ?? ""
        let found = try finding("keybag")
        #expect(found["level"] as? String == "problem")
        let cat = try sandbox.run("cat", "file")
        #expect(cat.status == 66)
        for said in [status.errors, explained, found["fix"] as? String ?? "", cat.errors] {
            #expect(said.contains("protectfs recovery restore"), "\(said)")
            #expect(!said.contains("protectfs init"), "\(said)")
        }
    }
}
