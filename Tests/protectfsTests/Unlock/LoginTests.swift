import Foundation
import SystemPackage
import TestEffort
import TestTPM
import Testing

/// Through real PAM: Debian's lines for a password, ours below them, pamtester(1) as the program that logs in.
@Suite(
    "Unlock by the login password: the script for PAM",
    .enabled(if: EndToEndUser.canMakeUsers, EndToEndUser.whyNot))
struct LoginTests {
    private let user: EndToEndUser
    /// Where the user may run it too.
    private let script: FilePath
    private let text: String

    init() throws {
        user = try EndToEndUser.made()
        script = user.programs.appending("protectfs-login")
        text = try Checkout.text("Examples/Login/protectfs-login")
        try install(user.programs.appending("protectfs").string)
        try setLoginPassword(EndToEndUser.passcode)
        #expect(try user.status().state == "beforeFirstUnlock")
    }

    /// Puts the script there, with another program in the place of the installed one.
    private func install(_ program: String) throws {
        let adapted = text.replacing("/usr/local/bin/protectfs", with: program)
        #expect(adapted != text)
        try TestProgram.write(adapted, at: script.string)
    }

    private func setLoginPassword(_ password: String) throws {
        let done = try EndToEndRun(
            ["chpasswd"], environment: user.environment, input: Array("\(user.name):\(password)\n".utf8))
        #expect(done.status == 0, "\(done)")
    }

    /// The line that the script's comment gives, with the script where it is.
    private var stanza: String {
        get throws {
            let line = try #require(text.split(separator: "\n").first { $0.contains("pam_exec.so") })
            let path = "/usr/local/sbin/protectfs-login"
            try #require(line.hasSuffix(path))
            return line.dropFirst(2).trimmingCharacters(in: .whitespaces).replacing(path, with: script.string)
        }
    }

    /// Who runs PAM: a login as root, in a session without the user's keyring; or a screen locker as the user.
    enum Caller: CaseIterable { case login, screenLocker }

    /// /etc/pam.d/common-auth of Debian.
    private static let passwordLines = """
        auth [success=1 default=ignore] pam_unix.so nullok
        auth requisite pam_deny.so
        auth required pam_permit.so
        """

    /// What a login says to this password, in a mount namespace with a /etc/pam.d of its own.
    private func logIn(
        _ password: String, by caller: Caller = .login, above: String = LoginTests.passwordLines
    ) throws -> Int32 {
        let service = above + "\n" + (try stanza)
        let become =
            caller == .login
            ? "keyctl session - " : "setpriv --reuid=\(user.uid) --regid=\(user.name) --init-groups "
        let done = try EndToEndRun(
            [
                "unshare", "--mount", "sh", "-c",
                """
                mount -t tmpfs -o mode=755 none /etc/pam.d && printf '%s\\n' "$0" >/etc/pam.d/protectfs-tests &&
                exec env -i PATH="$PATH" \(become) pamtester protectfs-tests "$1" authenticate
                """, service, user.name,
            ], environment: user.environment, input: Array((password + "\n").utf8))
        #expect(done.text.contains("successfully authenticated") == (done.status == 0), "\(done)")
        return done.status
    }

    /// The record of wrong passcodes, byte for byte: it is written before each try.
    private var attempts: [UInt8] {
        get throws { try user.keybag.directory.appending("attempts").storedBytes() }
    }

    private func failures(after passcode: String) throws -> String? {
        let done = try user.run(["protectfs", "unlock", "--passcode-fd", "0"], input: Array(passcode.utf8))
        return done.errors.firstMatch(of: /\((\d+) wrong in a row/).map { String($0.output.1) }
    }

    @Test("The login password unlocks, for a login and for a screen locker", arguments: Caller.allCases)
    func right(caller: Caller) throws {
        #expect(try logIn(EndToEndUser.passcode, by: caller) == 0)
        #expect(try user.status().state == "unlocked")
        try user.lock()
        #expect(try logIn(EndToEndUser.passcode, by: caller) == 0)
        #expect(try user.status().state == "unlocked")
    }

    @Test("A wrong login password is refused as ever, and no passcode is tried", arguments: Caller.allCases)
    func wrong(caller: Caller) throws {
        let before = try attempts
        #expect(try logIn("a wrong one", by: caller) != 0)
        #expect(try attempts == before)
        #expect(try user.status().state == "beforeFirstUnlock")
    }

    @Test("A changed login password logs in, unlocks nothing, and counts once however often it is used")
    func changed() throws {
        try setLoginPassword("another one")
        for _ in 0..<3 { #expect(try logIn("another one") == 0) }
        #expect(try user.status().state == "beforeFirstUnlock")
        #expect(try failures(after: "a guess") == "2")
        try user.unlock()
    }

    @Test(
        "A changed login password, used many times, is one try of the TPM that the keybag is bound to",
        .enabled(if: EmulatedTPM.whyNot == nil, "swtpm or tpm2-tools is missing: \(EmulatedTPM.whyNot ?? "")"))
    func changedWithTPM() throws {
        let emulator = try EmulatedTPM()
        try emulator.limit(tries: 31, seconds: 600)
        let program = user.programs.appending("protectfs-with-tpm").string
        try TestProgram.write(
            "#!/bin/sh\nPROTECTFS_TEST_SWTPM_PORT=\(emulator.port) exec '\(user.programs)/protectfs' \"$@\"\n",
            at: program)
        try install(program)
        let enrolled = try user.run(
            [
                "protectfs-with-tpm", "tpm", "enroll", "--keep-keys", "--no-recovery-code", "--passcode-fd", "0",
            ], input: Array(EndToEndUser.passcode.utf8))
        try #require(enrolled.status == 0, "\(enrolled)")
        try setLoginPassword("another one")
        for _ in 0..<Effort.count(8, 40) { #expect(try logIn("another one") == 0) }
        #expect(try emulator.failedTries() == 1)
        #expect(try user.status().state == "beforeFirstUnlock")
        try setLoginPassword(EndToEndUser.passcode)
        #expect(try logIn(EndToEndUser.passcode) == 0)
        #expect(try user.status().state == "unlocked")
    }

    @Test("While throttled a login goes on at once: no passcode is tried, the right one neither")
    func throttled() throws {
        for guess in 1...5 { #expect(try failures(after: "guess \(guess)") == "\(guess)") }
        let before = try attempts
        #expect(try logIn(EndToEndUser.passcode) == 0)
        #expect(try attempts == before, "an attempt is recorded before anything is derived")
        #expect(try user.status().state == "beforeFirstUnlock")
    }

    @Test("A keybag that is not there, and a program that is not, keep nobody from logging in")
    func nothingThere() throws {
        try FileManager.default.removeItem(atPath: user.keybag.directory.string)
        #expect(try logIn(EndToEndUser.passcode) == 0)
        try install("/nowhere/protectfs")
        #expect(try logIn(EndToEndUser.passcode) == 0)
    }

    @Test("Nor does a program that hangs, whatever it does about being ended")
    func hangs() throws {
        let hanging = user.programs.appending("hanging").string
        let ended = user.home.appending("ended").string
        try TestProgram.write("#!/bin/sh\ntrap '' TERM\ntouch \(ended)-not\nsleep 120\ntouch \(ended)\n", at: hanging)
        try install(hanging)
        #expect(try logIn(EndToEndUser.passcode) == 0)
        #expect(FileManager.default.fileExists(atPath: ended + "-not"), "it ran")
        #expect(!FileManager.default.fileExists(atPath: ended), "and was not waited for")
    }

    @Test("Where no password was asked for, PAM asks for it; with an empty answer the login goes on")
    func noPassword() throws {
        let fingerprint = "auth required pam_permit.so"
        let before = try attempts
        #expect(try logIn("", above: fingerprint) == 0)
        #expect(try attempts == before)
        #expect(try logIn(EndToEndUser.passcode, above: fingerprint) == 0)
        #expect(try user.status().state == "unlocked")
    }

    @Test("Where a wrong password does not end the stack, the login is refused all the same")
    func substack() throws {
        let fedora = "auth sufficient pam_unix.so nullok\nauth required pam_deny.so"
        for guess in 1...6 { #expect(try logIn("guess \(guess)", above: fedora) != 0) }
        #expect(try user.status().state == "beforeFirstUnlock")
    }

    @Test("A PATH that comes from somebody else leads the scripts, which run as root, nowhere")
    func foreignPath() throws {
        let bin = user.home.appending("foreign")
        mkdir(bin.string, 0o755)
        for name in ["id", "timeout", "setpriv", "loginctl", "wc", "runuser"] {
            try TestProgram.write("#!/bin/sh\ntouch \(bin)/was-run\n", at: bin.appending(name).string)
        }
        for (name, type) in [("Login/protectfs-login", "auth"), ("Logout/protectfs-logout", "close_session")] {
            let script = Checkout.root.appendingPathComponent("Examples/\(name)").path
            let done = try EndToEndRun(
                ["/bin/sh", script],
                environment: ["PATH": bin.string, "PAM_TYPE": type, "PAM_USER": "nobody-of-that-name"])
            #expect(done.status == 0)
        }
        #expect(!FileManager.default.fileExists(atPath: bin.appending("was-run").string))
    }

    @Test("docs/guide/PAM.md and the scripts say the same lines")
    func documented() throws {
        let blocks = try FencedBlock.all(of: "docs/guide/PAM.md").map { $0.text.trimmingCharacters(in: .newlines) }
        let scripts = try ["Login/protectfs-login", "Logout/protectfs-logout"].map {
            try Checkout.text("Examples/" + $0)
        }
        #expect(blocks.count == 2)
        for (block, script) in zip(blocks, scripts) { #expect(script.contains("\n#   \(block)\n")) }
    }

    @Test("Another user's password, and a PAM call without authentication, are not tried on this keybag")
    func others() throws {
        let before = try attempts
        for (type, name) in [("auth", "root"), ("auth", ""), ("open_session", user.name), ("account", user.name)] {
            let done = try user.run(
                ["env", "PAM_TYPE=\(type)", "PAM_USER=\(name)", "sh", script.string],
                input: Array(EndToEndUser.passcode.utf8))
            #expect(done.status == 0 && done.errors == "" && done.output == [], "\(done)")
        }
        #expect(try attempts == before)
        #expect(try user.status().state == "beforeFirstUnlock")
    }
    @Test(
        "A service that asks for a password without beginning a session unlocks nothing",
        arguments: ["sudo", "su-l", "polkit-1", "cron", "cups"])
    func services(service: String) throws {
        let before = try attempts
        func answer(_ service: String) throws {
            let done = try user.run(
                ["env", "PAM_TYPE=auth", "PAM_SERVICE=\(service)", "PAM_USER=\(user.name)", "sh", script.string],
                input: Array(EndToEndUser.passcode.utf8))
            #expect(done.status == 0 && done.errors == "" && done.output == [], "\(done)")
        }
        try answer(service)
        #expect(try attempts == before)
        #expect(try user.status().state == "beforeFirstUnlock")
        try answer("login")
        #expect(try user.status().state == "unlocked")
    }
}
