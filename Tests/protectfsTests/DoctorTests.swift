import DataProtection
import Foundation
import Testing

@testable import DataProtection
@testable import ProtectedFiles
@testable import protectfs

@Suite("doctor: findings from facts")
struct DoctorFindingTests {
    private func level(
        _ finding: KeyPath<DoctorFacts, DoctorFinding>, _ change: (inout DoctorFacts) -> Void
    ) -> DoctorFinding.Level {
        var facts = DoctorFacts()
        change(&facts)
        let result = facts[keyPath: finding]
        // Nothing to fix where nothing is wrong; one line each.
        if result.level == .ok || result.level == .unknown { #expect(result.fix == nil) }
        for text in [result.text, result.fix ?? ""] { #expect(!text.contains("\n") && !text.hasSuffix(".")) }
        return result.level
    }

    @Test("Swap and hibernation")
    func swap() {
        let safe = Swap(name: "/dev/zram0", isSafe: true)
        let plain = Swap(name: "/dev/sda2", isSafe: false)
        #expect(level(\.swapFinding) { $0.swaps = .known([]) } == .ok)
        #expect(level(\.swapFinding) { $0.swaps = .known([safe]) } == .ok)
        #expect(level(\.swapFinding) { $0.swaps = .known([safe, plain]) } == .warning)
        #expect(level(\.swapFinding) { $0.swaps = .unknown("no permission") } == .unknown)
        #expect(level(\.hibernationFinding) { $0.canHibernate = .known(false) } == .ok)
        #expect(
            level(\.hibernationFinding) {
                $0.canHibernate = .known(true)
                $0.swaps = .known([safe])
            } == .ok)
        #expect(
            level(\.hibernationFinding) {
                $0.canHibernate = .known(true)
                $0.swaps = .known([plain])
            } == .warning)
        #expect(level(\.hibernationFinding) { $0.canHibernate = .unknown("x") } == .unknown)
    }

    @Test("Memory that is freed, dumped, or not locked")
    func memory() {
        #expect(level(\.initOnFreeFinding) { $0.initOnFree = .known(true) } == .ok)
        #expect(level(\.initOnFreeFinding) { $0.initOnFree = .known(false) } == .warning)
        #expect(level(\.initOnFreeFinding) { $0.initOnFree = .unknown("x") } == .unknown)
        let dumps: [(String, UInt64?, DoctorFinding.Level)] = [
            ("core", 0, .ok), ("core", nil, .warning), ("core", 1000, .warning), ("|/bin/false", nil, .ok),
            ("|/lib/systemd/systemd-coredump %P", 0, .warning), ("|/usr/share/apport/apport -p%p", 0, .warning),
            ("|/opt/other", nil, .warning),
        ]
        for (pattern, limit, expected) in dumps {
            let found = level(\.coreDumpFinding) { $0.coreDumps = .known(.init(pattern: pattern, limit: limit)) }
            #expect(found == expected, "\(pattern)")
        }
        #expect(level(\.memoryFinding) { $0.secretMemory = .secretMemory } == .ok)
        #expect(level(\.memoryFinding) { $0.secretMemory = .locked } == .ok)
        #expect(level(\.memoryFinding) { $0.secretMemory = .unlocked } == .warning)
        #expect(level(\.libcryptoFinding) { $0.libcrypto = (3, "OpenSSL 3.0") } == .ok)
        #expect(level(\.libcryptoFinding) { $0.libcrypto = (1, "OpenSSL 1.1.1") } == .problem)
    }

    @Test("A user's unit that hides the one of a package is named, with the way out")
    func hidingUnit() {
        var facts = DoctorFacts()
        #expect(facts.unitFinding == nil)
        facts.hidingUnit = "/home/kim/.config/systemd/user/protectfs-agent.service"
        #expect(level(\.unitFinding!) { $0 = facts } == .warning)
        #expect(
            facts.unitFinding?.fix?.contains("rm '/home/kim/.config/systemd/user/protectfs-agent.service'") == true)
    }

    @Test("A running agent is ok; without an agent, a warning gives the fix that suits the machine")
    func agent() {
        let agent = AgentRecord(pid: 12, since: 0, program: "/usr/bin/protectfs-agent", followsAll: true)
        #expect(level(\.agentFinding) { $0.agent = .known(agent) } == .ok)
        for (hasSystemd, hasBus, expected) in [
            (true, true, "protectfs agent install"), (false, true, "protectfs agent run"),
            (false, false, "~/.bash_logout"),
        ] {
            var facts = DoctorFacts()
            (facts.hasSystemd, facts.hasBus) = (hasSystemd, hasBus)
            #expect(level(\.agentFinding) { $0 = facts } == .warning)
            #expect(facts.agentFinding.text.hasSuffix("after a logout too"))
            let fix = facts.agentFinding.fix ?? ""
            #expect(fix.contains(expected) && fix.contains("protectfs unlock --for 2h"), "\(fix)")
        }
    }

    @Test("The kernel keyring")
    func keyring() {
        #expect(level(\.reachFinding) { $0.keyringFailure = nil } == .ok)
        for errno in [Errno.noFunction, .notPermitted, Errno(rawValue: 122), .permissionDenied] {
            #expect(
                level(\.reachFinding) { $0.keyringFailure = .init(step: .add, errno: errno) } == .problem, "\(errno)")
        }
        #expect(level(\.sessionFinding) { $0.isInUserNamespace = .known(true) } == .warning)
        for group in ["/user.slice/user-1000.slice/session-2.scope", "/", "/system.slice/cron.service"] {
            #expect(level(\.sessionFinding) { $0.controlGroup = .known(group) } == .ok)
        }
        #expect(level(\.sessionFinding) { $0.controlGroup = .unknown("x") } == .unknown)
        let quotas: [(Int, Int, DoctorFinding.Level)] = [
            (2, 100, .ok), (190, 100, .ok), (195, 100, .warning), (2, 19_000, .warning),
        ]
        for (keys, bytes, expected) in quotas {
            let quota = DoctorFacts.Quota(keys: keys, maximumKeys: 200, bytes: bytes, maximumBytes: 20_000)
            #expect(level(\.quotaFinding) { $0.quota = .known(quota) } == expected, "\(keys), \(bytes)")
        }
        #expect(level(\.gcFinding) { $0.gcDelay = .known(300) } == .ok)
        #expect(level(\.gcFinding) { $0.gcDelay = .known(3600) } == .warning)
    }

    @Test("The keybag's file system, and access by other users")
    func place() {
        let types: [(String, DoctorFinding.Level)] = [
            ("ext4", .ok), ("btrfs", .ok), ("tmpfs", .warning), ("overlay", .warning), ("vfat", .problem),
            ("fuseblk", .problem), ("fuse.sshfs", .warning), ("nfs4", .warning), ("somethingfs", .unknown),
        ]
        for (type, expected) in types {
            #expect(level(\.fileSystemFinding) { $0.fileSystem = .known(type) } == expected, "\(type)")
        }
        let kinds: [(DoctorFacts.Exposure.Kind, DoctorFinding.Level)] = [
            (.othersCanWrite(mode: 0o777), .problem), (.othersCanRead(mode: 0o644), .warning),
            (.foreignOwner(5), .problem), (.unreadable("x"), .unknown),
        ]
        for (kind, expected) in kinds {
            var facts = DoctorFacts()
            facts.exposures = [.init(path: "/a b", kind: kind, isDirectory: false)]
            #expect(facts.permissionFindings.map(\.level) == [expected])
            #expect(facts.permissionFindings[0].fix?.contains("'/a b'") != false, "paths are quoted")
        }
        #expect(DoctorFacts().permissionFindings.map(\.level) == [.ok])
        #expect(DoctorFacts().keybagFindings == [], "nothing is known of any keybag")
    }

    @Test("A group that other users are in is not the user's own, even if it is the group of the process")
    func privateGroups() throws {
        let daemon = try #require(getpwnam("daemon")).pointee.pw_uid
        #expect(PrivateGroup.isPrivate(0, of: daemon))
        #expect(PrivateGroup.isPrivate(try #require(getgrnam("daemon")).pointee.gr_gid, of: daemon))
        #expect(!PrivateGroup.isPrivate(try #require(getgrnam("users")).pointee.gr_gid, of: daemon))
        #expect(!PrivateGroup.isPrivate(2_000_000_001, of: daemon))
        #expect(!PrivateGroup.isPrivate(100, of: 2_000_000_001))
    }

    @Test("A line of /proc/self/mountinfo, and names with spaces")
    func mounts() {
        let table = MountTable(
            parsing: """
                22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
                23 22 0:30 / /home\\040of/me rw - btrfs /dev/mapper/c rw
                24 22 0:31 / /tmp rw shared:5 master:2 - tmpfs tmpfs rw
                broken line
                """)
        #expect(table.mounts.count == 3)
        #expect(table.mount(of: "/etc/fstab")?.type == "ext4")
        #expect(table.mount(of: "/home of/me/x")?.source == "/dev/mapper/c")
        #expect(table.mount(of: "/tmpfile")?.type == "ext4")
        #expect(table.mount(of: "/tmp")?.device == "0:31")
        #expect(MountTable.unescaped("a\\134b\\") == "a\\b\\")
    }
}

@Suite("doctor")
struct DoctorTests {
    private func levels(_ done: Finished) throws -> [String: String] {
        let findings = try #require(try done.json() as? [[String: Any]])
        return Dictionary(
            findings.map { ($0["check"] as? String ?? "", $0["level"] as? String ?? "") },
            uniquingKeysWith: { a, _ in a })
    }

    @Test("A keybag in order")
    func inOrder() throws {
        let sandbox = try CommandSandbox()
        let done = try sandbox.run("doctor", "--json")
        #expect(done.status == 0, "\(done.text)")
        let seen = try levels(done)
        for check in [
            "keybag", "device key", "attempts", "class changes", "class keys", "permissions", "kernel keyring",
        ] {
            #expect(seen[check] == "ok", "\(check)")
        }
        #expect(seen["recovery code"] == "warning" && seen["derivation"] == "warning", "none; and few iterations")
        #expect(
            Set(seen.keys).isSuperset(of: [
                "swap", "hibernation", "init_on_free", "core dumps", "memory for keys", "libcrypto", "key quota",
                "expired keys", "session", "file system",
            ]))
        let text = try sandbox.run("doctor")
        #expect(text.text.contains("warning  derivation: the passcode is protected by 1000 iterations only\n"))
        #expect(text.text.contains("         fix: protectfs passcode\n"))
        try sandbox.makeKeybag(in: sandbox.path("other"))
        let other = try sandbox.run("doctor", "--keybag", "other")
        #expect(other.text.contains("         fix: protectfs recovery new --keybag 'other';"), "and not for this one")
        // No key is left in the ring; the kernel lists one that is invalidated until it has collected it.
        #expect(try waits { try sandbox.shell("grep protectfs-doctor /proc/keys").status != 0 })
    }

    @Test("A recovery export: none, one, and one that is older than the keybag")
    func recoveryExport() throws {
        let sandbox = try CommandSandbox()
        #expect(try levels(sandbox.run("doctor", "--json"))["recovery export"] == nil, "there is no code yet")
        _ = try sandbox.makeRecoveryCode()
        #expect(try levels(sandbox.run("doctor", "--json"))["recovery export"] == "warning")
        #expect(try sandbox.run("recovery", "export", "export").status == 0)
        #expect(try levels(sandbox.run("doctor", "--json"))["recovery export"] == "ok")
        _ = try sandbox.makeRecoveryCode()
        #expect(try levels(sandbox.run("doctor", "--json"))["recovery export"] == "warning")
        #expect(try sandbox.run("doctor").text.contains("the keybag was changed after the last one, of 20"))
    }

    @Test("Without a keybag: says so, and is no problem")
    func noKeybag() throws {
        let sandbox = try CommandSandbox(makesKeybag: false)
        let done = try sandbox.run("doctor")
        #expect(done.status == 0)
        #expect(done.text.contains("warning  keybag: there is none in '"))
        #expect(done.text.contains("fix: make one: protectfs init\n"))
        let other = try sandbox.run("doctor", "--keybag", "other").text
        #expect(other.contains("make one: protectfs init --keybag "), "it is about the keybag that was named")
    }

    @Test("Problems are reported, and the suggested fixes work")
    func mending() throws {
        let sandbox = try CommandSandbox()
        try Data([1]).write(to: URL(fileURLWithPath: sandbox.path("keybag/keybag.1")))
        try Data([1]).write(to: URL(fileURLWithPath: sandbox.path("keybag/attempts")))
        chmod(sandbox.path("keybag/keybag.1"), 0o644)
        chmod(sandbox.path("state"), 0o777)
        var done = try sandbox.run("doctor", "--json")
        #expect(done.status == 78, "others can put another device key there")
        var seen = try levels(done)
        #expect(seen["keybag"] == "warning" && seen["attempts"] == "warning" && seen["permissions"] != "ok")
        let findings = try #require(try done.json() as? [[String: Any]])
        for finding in findings where finding["check"] as? String == "permissions" {
            #expect(try sandbox.shell(try #require(finding["fix"] as? String)).status == 0)
        }
        done = try sandbox.run("doctor", "--json")
        #expect(done.status == 0)
        seen = try levels(done)
        #expect(seen["permissions"] == "ok" && seen["keybag"] == "warning")
    }

    @Test("A device key that is gone, and a keybag that is damaged, are problems")
    func problems() throws {
        let sandbox = try CommandSandbox()
        try FileManager.default.removeItem(atPath: sandbox.path("state/protectfs/device-key"))
        var done = try sandbox.run("doctor", "--json")
        #expect(done.status == 78)
        #expect(try levels(done)["device key"] == "problem")
        for copy in ["keybag.0", "keybag.1"] {
            try Data([1]).write(to: URL(fileURLWithPath: sandbox.path("keybag/\(copy)")))
        }
        done = try sandbox.run("doctor", "--json")
        #expect(done.status == 78)
        #expect(try levels(done)["keybag"] == "problem")
    }

    @Test("Without /proc no verb can be told from none: that is an error, not help")
    func noProc() throws {
        let sandbox = try CommandSandbox()
        guard try sandbox.shell("unshare --mount true").status == 0 else {
            return print("skipped: no mount namespace can be made here")
        }
        let done = try sandbox.shell("unshare --mount sh -c 'mount -t tmpfs none /proc && exec \"$PROTECTFS\" lock'")
        #expect(done.status == 71)
        #expect(done.errors.contains("/proc is not mounted here"))
    }

    @Test("Where nothing can be read: unknown and why, no crash")
    func unreadable() throws {
        guard geteuid() == 0 else { return print("skipped: only root can take /proc and /sys away") }
        let sandbox = try CommandSandbox()
        let script = """
            exec unshare --mount sh -c '
                mount -t tmpfs none /sys && mount -t tmpfs none /proc/sys &&
                mount --bind /dev/null /proc/key-users && mount --bind /dev/null /proc/cmdline &&
                exec "$PROTECTFS" doctor'
            """
        guard try sandbox.shell("unshare --mount true").status == 0 else {
            return print("skipped: no mount namespace can be made here")
        }
        let done = try sandbox.shell(script)
        #expect(done.status == 0, "\(done.errors)")
        for check in ["init_on_free", "core dumps", "key quota", "expired keys"] {
            #expect(done.text.contains("unknown  \(check): "), "\(check)")
        }
    }
}
