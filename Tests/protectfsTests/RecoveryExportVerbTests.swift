import Foundation
import Testing

@Suite("recovery export and restore")
struct RecoveryExportVerbTests {
    private let sandbox: CommandSandbox
    init() throws { sandbox = try CommandSandbox() }

    @Test("Both copies damaged: the message says how to restore, the export restores, passcode and code open")
    func exportAndRestore() throws {
        let refused = try sandbox.run("recovery", "export", "export")
        #expect(refused.status == 66)
        #expect(refused.errors.contains("hint: make one, with the passcode: protectfs recovery new\n"))
        let code = try sandbox.makeRecoveryCode()
        try sandbox.unlock()
        try sandbox.protectedFile("file")
        try sandbox.run("lock")
        let exported = try sandbox.run("recovery", "export", "export")
        #expect(exported.status == 0 && exported.text + exported.errors == "")
        let again = try sandbox.run("recovery", "export", "export")
        #expect(again.status == 73 && again.errors.contains("--replace"))
        #expect(try sandbox.run("recovery", "export", "--replace", "export").status == 0)
        let intact = try sandbox.run("recovery", "restore", "export")
        #expect(intact.status == 73 && intact.errors.contains("nothing needs restoring"))

        for passcode in [CommandSandbox.passcode, nil] {
            try damageBothCopies()
            let damaged = try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data("x".utf8))
            #expect(damaged.status == 65)
            #expect(damaged.errors.contains("protectfs recovery restore FILE"))
            let restored = try sandbox.run("recovery", "restore", "export")
            #expect(restored.status == 0 && restored.text == "")
            #expect(restored.errors.contains("the damaged copy is kept as"))
            if let passcode {
                #expect(try sandbox.unlocks(with: passcode) == 0)
            } else {
                #expect(try sandbox.recover(with: code).status == 0)
                #expect(try sandbox.unlocks(with: "new") == 0)
            }
            #expect(try sandbox.run("cat", "file").text == "text\n")
        }
    }

    private func damageBothCopies() throws {
        for copy in [0, 1] {
            let url = URL(fileURLWithPath: sandbox.keybagDirectory + "/keybag.\(copy)")
            var bytes = try Data(contentsOf: url)
            bytes[100] ^= 1
            try bytes.write(to: url)
        }
    }

    @Test("Another keybag is not restored over; both are named")
    func restoreOverAnother() throws {
        _ = try sandbox.makeRecoveryCode()
        try sandbox.run("recovery", "export", "export")
        let other = sandbox.path("other")
        try sandbox.makeKeybag(in: other)
        let done = try sandbox.run("recovery", "restore", "export", "--keybag", other)
        #expect(done.status == 73)
        #expect(done.errors.matches(of: /[0-9a-f]{8}-[0-9a-f-]{27}/).count == 2)
        #expect(try sandbox.run("recovery", "restore", "export", "--keybag", sandbox.path("new")).status == 0)
        try Data("hello".utf8).write(to: URL(fileURLWithPath: sandbox.path("mail")))
        #expect(try sandbox.run("recovery", "restore", "mail", "--keybag", sandbox.path("none")).status == 65)
    }

    @Test("An export takes the place of a regular file only")
    func exportOverOthers() throws {
        _ = try sandbox.makeRecoveryCode()
        try sandbox.put("x", at: "letter")
        _ = try sandbox.shell("ln -s letter link; mkfifo pipe; mkdir directory")
        for name in ["link", "pipe", "directory"] {
            let done = try sandbox.run("recovery", "export", "--replace", name)
            #expect(done.status == 77 && done.errors.contains("not a regular file"), "\(name): \(done.errors)")
        }
        #expect(try sandbox.shell("test -L link && test -p pipe && test -d directory && cat letter").text == "x")
        #expect(try sandbox.run("recovery", "export", "--replace", "letter").status == 0)
        // A file where the keybag's directory should be stays as it is.
        _ = try sandbox.shell("umask 022; echo x >file")
        #expect(try sandbox.run("recovery", "restore", "letter", "--keybag", "file").status != 0)
        #expect(try sandbox.shell("stat -c %a file").text == "644\n")
    }
}
