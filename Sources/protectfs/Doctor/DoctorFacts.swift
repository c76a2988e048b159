import DataProtection

/// What `doctor` looks at, read from the system and judged elsewhere.
struct DoctorFacts {
    var swaps: Reading<[Swap]> = .known([])
    /// Whether the machine can write all its memory to swap.
    var canHibernate: Reading<Bool> = .known(false)

    /// Whether freed pages are wiped.
    var initOnFree: Reading<Bool> = .known(true)

    /// Where core dumps go.
    struct CoreDumps: Equatable {
        /// `core_pattern`, one line.
        let pattern: String
        /// The soft limit that we inherited, in bytes; nil: unlimited.
        let limit: UInt64?
    }
    var coreDumps: Reading<CoreDumps> = .known(CoreDumps(pattern: "", limit: 0))

    /// Whether the kernel keyring does what is needed; nil: it does.
    var keyringFailure: KeyringReach.Failure?
    /// Whether this process is in a user namespace, which has keyrings of its own.
    var isInUserNamespace: Reading<Bool> = .known(false)
    /// The control group of this process: the last word names the session or service.
    var controlGroup: Reading<String> = .known("")

    /// Keys of this user, against what it may have.
    struct Quota: Equatable {
        let keys: Int
        let maximumKeys: Int
        let bytes: Int
        let maximumBytes: Int
    }
    var quota: Reading<Quota> = .known(Quota(keys: 2, maximumKeys: 200, bytes: 100, maximumBytes: 20_000))
    /// Seconds until the kernel forgets an expired key.
    var gcDelay: Reading<Int> = .known(300)

    /// The libcrypto that is loaded.
    var libcrypto: (major: Int, text: String) = (3, "")
    var secretMemory = SecretMemoryBacking.secretMemory
    /// RLIMIT_MEMLOCK in bytes; nil: unlimited.
    var memlockLimit: UInt64?

    /// The keybag's directory.
    var keybagDirectory: FilePath = ""
    /// What names it behind a verb, where that is needed.
    var keybagOption = ""
    var health: KeybagHealth?
    /// The TPM; nil: there is none, and the keybag is not bound to one.
    var hardware: HardwareReport?
    /// The process that locks when the session does; nil: none.
    var agent: Reading<AgentRecord?> = .known(nil)
    /// The user's own unit of the agent, where it hides the one of a package.
    var hidingUnit: FilePath?
    /// Whether systemd can start an agent, and whether an agent that is started otherwise hears of sessions.
    var (hasSystemd, hasBus) = (true, true)
    /// The kind of file system that the keybag is on.
    var fileSystem: Reading<String> = .known("ext4")
    /// What others may do to, and where.
    var exposures: [Exposure] = []

    /// A file or directory on the way to keys that is not its owner's alone.
    struct Exposure: Equatable {
        enum Kind: Equatable {
            case othersCanWrite(mode: UInt32)
            case othersCanRead(mode: UInt32)
            case foreignOwner(UInt32)
            case unreadable(String)
        }
        let path: FilePath
        let kind: Kind
        let isDirectory: Bool
    }
}

/// What came of a check.
struct DoctorFinding: Equatable {
    enum Level: String {
        case ok, unknown, warning, problem
    }
    let check: String
    let level: Level
    /// What is, in one line.
    let text: String
    /// How to fix it, in one line.
    let fix: String?

    static func ok(_ check: String, _ text: String) -> DoctorFinding {
        DoctorFinding(check: check, level: .ok, text: text, fix: nil)
    }
    static func unknown(_ check: String, _ text: String) -> DoctorFinding {
        DoctorFinding(check: check, level: .unknown, text: text, fix: nil)
    }
    static func warning(_ check: String, _ text: String, fix: String? = nil) -> DoctorFinding {
        DoctorFinding(check: check, level: .warning, text: text, fix: fix)
    }
    static func problem(_ check: String, _ text: String, fix: String? = nil) -> DoctorFinding {
        DoctorFinding(check: check, level: .problem, text: text, fix: fix)
    }
}
