import DataProtection
import Glibc

/// Facts from /proc, /sys and the keybag. Thin: what they mean is judged elsewhere.
extension DoctorFacts {
    /// Reads everything. A key of no meaning goes through the kernel keyring; nothing else is changed.
    static func read(keybag directory: FilePath) -> DoctorFacts {
        var facts = DoctorFacts()
        facts.swaps = Swap.read()
        facts.canHibernate = hibernation()
        facts.initOnFree = initOnFreeNow()
        facts.coreDumps = coreDumpsNow()
        facts.keyringFailure = KeyringReach().failure
        facts.isInUserNamespace = KernelFile.text(of: "/proc/self/uid_map").map { map in
            map.split(whereSeparator: \.isWhitespace).map(String.init) != ["0", "0", "4294967295"]
        }
        facts.controlGroup = KernelFile.text(of: "/proc/self/cgroup").map { text in
            text.split(separator: "\n").first { $0.hasPrefix("0::") }.map { String($0.dropFirst(3)) } ?? ""
        }
        facts.quota = quotaNow()
        facts.gcDelay = KernelFile.text(of: "/proc/sys/kernel/keys/gc_delay").flatMap { text in
            Int(text).map { .known($0) } ?? .unknown("/proc/sys/kernel/keys/gc_delay is not a number")
        }
        facts.libcrypto = (CryptographyLibrary.majorVersion, CryptographyLibrary.version)
        facts.secretMemory = ProcessSecrets.backing
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &limit)
        facts.memlockLimit = limit.rlim_cur == rlim_t.max ? nil : UInt64(limit.rlim_cur)
        facts.keybagDirectory = directory
        facts.keybagOption = KeybagOption.words(for: directory)
        let health = KeybagHealth(of: directory)
        facts.health = health
        facts.hardware = (try? Keybag(at: directory)).map(HardwareReport.init)
        if let hardware = facts.hardware, !hardware.isBound, hardware.isAbsent { facts.hardware = nil }
        facts.agent = agentNow(directory)
        if let program = try? SiblingProgram.command() {
            facts.hidingUnit = UserUnit.agent(program).copyThatHidesPackage()
        }
        (facts.hasSystemd, facts.hasBus) = (UserUnit.isSystemdRunning, AgentProgram.hasBus)
        facts.fileSystem = fileSystem(of: directory)
        var own = [directory]
        if case .success(let keybag) = health.inspection { own.append(keybag.deviceKey) }
        facts.exposures = ExposureReader.exposures(of: own)
        return facts
    }

    private static func hibernation() -> Reading<Bool> {
        guard NamedItem.exists("/sys/power/state") else { return .known(false) }
        return KernelFile.text(of: "/sys/power/state").flatMap { states in
            guard states.split(separator: " ").contains("disk") else { return .known(false) }
            return KernelFile.text(of: "/sys/power/disk").map { !$0.contains("[disabled]") }
        }
    }

    private static func initOnFreeNow() -> Reading<Bool> {
        KernelFile.text(of: "/proc/cmdline").flatMap { line in
            let words = line.split(separator: " ")
            if let word = words.last(where: { $0.hasPrefix("init_on_free=") }) {
                return .known(["1", "on", "y"].contains(word.dropFirst("init_on_free=".count)))
            }
            var name = utsname()
            uname(&name)
            let release = withUnsafeBytes(of: &name.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            guard
                case .known(let configuration) = KernelFile.text(
                    of: FilePath("/boot/config-\(release)"), count: 1 << 20)
            else {
                return .unknown("not asked for at the start, and the kernel's own default cannot be read")
            }
            return .known(configuration.contains("\nCONFIG_INIT_ON_FREE_DEFAULT_ON=y"))
        }
    }

    private static func coreDumpsNow() -> Reading<CoreDumps> {
        KernelFile.text(of: "/proc/sys/kernel/core_pattern").map { pattern in
            // Our own limit is 0 already: that of the shell counts.
            var limit: UInt64?
            if case .known(let limits) = KernelFile.text(of: FilePath("/proc/\(getppid())/limits")) {
                let line = limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") }
                limit = line?.split(separator: " ").dropFirst(4).first.flatMap { UInt64($0) }
            }
            return CoreDumps(pattern: pattern, limit: limit)
        }
    }

    private static func quotaNow() -> Reading<Quota> {
        KernelFile.text(of: "/proc/key-users", count: 1 << 20).flatMap { users in
            // UID: usage keys/instantiated keys/maximum bytes/maximum, proc_key-users(5)
            for line in users.split(separator: "\n") {
                let fields = line.split(whereSeparator: { " :/".contains($0) }).compactMap { Int($0) }
                guard fields.count == 8, fields[0] == Int(getuid()) else { continue }
                return .known(
                    Quota(keys: fields[4], maximumKeys: fields[5], bytes: fields[6], maximumBytes: fields[7]))
            }
            return .unknown("/proc/key-users does not name this user")
        }
    }

    private static func agentNow(_ directory: FilePath) -> Reading<AgentRecord?> {
        do throws(DataProtectionError) { return .known(try AgentProgram.following(directory)) } catch {
            return .unknown(error.message)
        }
    }

    private static func fileSystem(of directory: FilePath) -> Reading<String> {
        guard let resolved = directory.canonical else { return .unknown(Errno.current.spoken) }
        return MountTable.reading().flatMap { table in
            table.mount(of: resolved).map { .known($0.type) } ?? .unknown("/proc/self/mountinfo does not name it")
        }
    }
}
