import Foundation
import Testing

@Suite("init, unlock, lock, status")
struct KeybagVerbTests {
    private let sandbox: CommandSandbox
    init() throws { sandbox = try CommandSandbox() }

    private func state(_ options: String...) throws -> String? {
        let status = try sandbox.run(["status", "--json"] + options).json() as? [String: Any]
        return (status?["keybags"] as? [[String: Any]])?.first?["state"] as? String
    }

    @Test("init makes an unlocked keybag silently, and refuses a second one")
    func initialise() throws {
        let fresh = try CommandSandbox(makesKeybag: false)
        #expect(try fresh.run("status").status == 66)
        let made = try fresh.run("init", "--passcode-fd", "3", passcodes: Data("secret".utf8))
        #expect(made.status == 0)
        #expect(made.text + made.errors == "")
        #expect(try fresh.run("status").text.contains(": unlocked since "))
        let again = try fresh.run("init", "--passcode-fd", "3", passcodes: Data("secret".utf8))
        #expect(again.status == 73)
    }

    @Test("Before first unlock, unlocked, locked")
    func states() throws {
        #expect(try state() == "beforeFirstUnlock")
        try sandbox.unlock()
        #expect(try state() == "unlocked")
        #expect(try sandbox.run("lock").status == 0)
        #expect(try state() == "locked")
        #expect(try sandbox.run("lock").status == 0, "once more is fine")
    }

    @Test(
        "status prints a user namespace that no kernel has: anybody who can write to the keybag's directory can forge it"
    )
    func forgedNamespace() throws {
        let boot = try String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8).filter(\.isHexDigit)
        let rings = URL(fileURLWithPath: sandbox.keybagDirectory + "/rings")
        try Data("\(UInt64.max) \(boot) 0\n".utf8).write(to: rings)
        #expect(try sandbox.run("status").text.contains("still unlocked in user namespace \(UInt64.max)"))
        let done = try sandbox.run("status", "--json")
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.text.contains("\(Int64.max)"))
    }

    @Test("A key that cannot be read is not taken for an evicted one")
    func unreadableKey() throws {
        try sandbox.unlock()
        #expect(try sandbox.shell("echo text | \"$PROTECTFS\" write complete").status == 0)
        let before = try sandbox.run("status", "--json").text
        let uuid = try #require(before.firstMatch(of: /"uuid": "([^"]*)"/)).output.1
        let key = try sandbox.shell("keyctl search @u user protectfs:\(uuid):1")
        #expect(key.status == 0)
        let serial = key.text.dropLast()
        defer { _ = try? sandbox.shell("keyctl unlink \(serial) @u") }
        #expect(try sandbox.shell("keyctl setperm \(serial) 0").status == 0)
        let status = try sandbox.run("status")
        #expect(status.status == 75 && status.text == "")
        #expect(status.errors.contains("the lock state is unknown"))
        for words in [["wait", "--timeout", "1s"], ["wait", "--until", "locked"], ["watch"]] {
            let done = try sandbox.run(words)
            #expect(done.status == 75 && done.text == "", "\(words): \(done.errors)")
            #expect(done.errors == status.errors, "\(words)")
        }
        // To say that it is locked would send people to an unlock, which does not help.
        let read = try sandbox.run("cat", "complete")
        #expect(read.status == 75 && read.text == "" && read.errors == status.errors, "\(read.errors)")
    }

    @Test("A queue that cannot be read is not called empty")
    func unreadableQueue() throws {
        let queue = sandbox.keybagDirectory + "/queue"
        #expect(try sandbox.shell("mkdir -p -m 700 '\(queue)'").status == 0)
        let traced = """
            strace -f -qq -o /dev/null -P '\(queue)' -e trace=openat -e inject=openat:error=EIO "$PROTECTFS" status
            """
        for options in ["", " --json"] {
            let done = try sandbox.shell(traced + options)
            #expect(done.status == 0 && done.errors.contains("queue'"), "\(done.errors)")
            #expect(options == "" || done.text.contains("\"queued\": null"))
        }
        #expect(try sandbox.run("status", "--json").text.contains("\"queued\": 0"))
    }

    @Test("status is a table for people")
    func table() throws {
        try sandbox.unlock("--for", "2h")
        let text = try sandbox.run("status").text
        #expect(text.contains(", locks in "))
        #expect(text.contains("CLASS         KEY\ncomplete      in keyring since "))
        #expect(text.contains("secrets in this command: "))
    }

    @Test("--keybag wins over PROTECTFS_KEYBAG")
    func option() throws {
        let other = sandbox.path("other")
        try sandbox.makeKeybag(in: other)
        defer { sandbox.evictKeys(of: other) }
        try sandbox.unlock("--keybag", other)
        #expect(try state("--keybag", other) == "unlocked")
        #expect(try state() == "beforeFirstUnlock")
        try sandbox.unlock()
        try sandbox.protectedFile("mine")
        let both = try sandbox.run("cat", "mine", "--keybag", other)
        #expect(both.status == 0, "a keybag that is remembered is found by the file's name for it: \(both.errors)")
        #expect(try state("--all") != nil)
    }

    @Test(
        "The keybag that was named is named in the hint too",
        arguments: [
            ["write", "--class", "complete", "new"], ["protect", "plain"], ["upgrade", "tree"],
            ["rotate", "--root", "tree"],
            ["queue", "run"],
        ])
    func hint(arguments: [String]) throws {
        let other = sandbox.path("other")
        try sandbox.makeKeybag(in: other)
        defer { sandbox.evictKeys(of: other) }
        for name in ["plain", "tree/plain"] { try sandbox.put("text", at: name) }
        if arguments == ["queue", "run"] { try sandbox.run("upgrade", "tree", "--keybag", other) }
        let done = try sandbox.run(arguments + ["--keybag", other])
        #expect(done.status == 75)
        #expect(done.errors.hasSuffix("hint: unlock first: protectfs unlock --keybag '\(other)'\n"), "\(done.errors)")
    }

    @Test("A wrong passcode is 77; after five, none is tried and nothing is asked")
    func wrongPasscode() throws {
        for guess in 1...5 {
            let done = try sandbox.run("unlock", "--passcode-fd", "3", passcodes: Data("guess \(guess)".utf8))
            #expect(done.status == 77)
            #expect(done.errors.contains("(\(guess) wrong in a row"))
        }
        let done = try sandbox.run("unlock")
        #expect(done.status == 75)
        #expect(done.errors.contains("hint: try again in "))
    }

    @Test("lock --grace waits, then locks")
    func grace() throws {
        try sandbox.unlock()
        let start = Date()
        #expect(try sandbox.run("lock", "--grace", "1").status == 0)
        #expect(Date().timeIntervalSince(start) >= 1)
        #expect(try state() == "locked")
    }

    @Test("Ctrl-C in the grace is 130, and says what the kernel does")
    func graceInterrupted() throws {
        try sandbox.unlock()
        let done = try sandbox.shell(
            "\"$PROTECTFS\" lock --grace 30 & sleep 0.5; kill -TERM $!; wait $!")
        #expect(done.status == 130)
        #expect(done.errors.contains("the keys still expire in"))
        #expect(try state() == "unlocked")
    }

    @Test("An unlock in the grace ends the lock, and the command says so")
    func graceOvertaken() throws {
        try sandbox.unlock()
        let script = """
            "$PROTECTFS" lock --grace 2 & sleep 0.5
            printf '\(CommandSandbox.passcode)' | "$PROTECTFS" unlock --passcode-fd 0 2>/dev/null
            wait $!
            """
        let done = try sandbox.shell(script)
        #expect(done.status == 75, "\(done.errors)")
        #expect(try state() == "unlocked")
    }

    @Test("lock --grace fails while another namespace holds keys, also if another lock comes first")
    func graceOvertakenByLock() throws {
        try sandbox.unlock()
        let boot = try String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8).filter(\.isHexDigit)
        let rings = URL(fileURLWithPath: sandbox.keybagDirectory + "/rings")
        try Data("77 \(boot) 0\n".utf8).write(to: rings)
        let script = """
            "$PROTECTFS" lock --grace 600 & waiting=$!
            until "$PROTECTFS" status | grep -q 'locks in'; do sleep 0.05; done
            "$PROTECTFS" lock 2>/dev/null; echo $?
            wait $waiting; echo $?
            """
        let done = try sandbox.shell(script)
        #expect(done.text == "75\n75\n", "\(done.errors)")
        #expect(done.errors.contains("was unlocked in user namespace 77"))
    }

    @Test("lock --grace ends with an earlier armed lock of somebody else, which is no unlock")
    func graceMadeShorter() throws {
        try sandbox.unlock()
        let script = """
            "$PROTECTFS" lock --grace 600 & waiting=$!
            until "$PROTECTFS" status | grep -q 'locks in'; do sleep 0.05; done
            "$PROTECTFS" lock --grace 3; echo $?
            wait $waiting; echo $?
            """
        let done = try sandbox.shell(script)
        #expect(done.text == "0\n0\n", "\(done.errors)")
        #expect(try state() == "locked")
    }

    @Test(
        "Usage errors are 64 and name the help",
        arguments: [["nothing"], ["cat"], ["lock", "--grace", "x"], ["unlock", "--for", "0"]])
    func usage(arguments: [String]) throws {
        let done = try sandbox.run(arguments)
        #expect(done.status == 64)
        #expect(done.errors.hasPrefix("protectfs: error: "))
        #expect(done.errors.contains("--help"))
    }

    @Test("A usage error points to the help of the very verb")
    func usageHint() throws {
        let done = try CommandSandbox(makesKeybag: false).run("recovery", "export")
        #expect(done.status == 64)
        #expect(done.errors.hasSuffix("hint: protectfs recovery export --help\n"))
    }

    @Test("--version and --help are answers")
    func version() throws {
        #expect(try sandbox.run("--version").text == "0.1.0\n")
        #expect(try sandbox.run("--help").text.contains("EVERY DAY:"))
        #expect(try sandbox.run("--help").status == 0)
    }

    @Test("Results that cannot be written are 74")
    func fullOutput() throws {
        for verb in ["status", "status --json", "ls", "--help"] {
            #expect(try sandbox.shell("exec \"$PROTECTFS\" \(verb) >/dev/full").status == 74)
        }
        #expect(try sandbox.shell("exec \"$PROTECTFS\" status >&-").status == 74)
    }
}
