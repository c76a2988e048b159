import DataProtection
import Glibc

/// The unit of the user's own systemd that runs the agent.
struct AgentUnit {
    static let name = "protectfs-agent.service"
    /// The command, as an absolute path.
    let program: FilePath

    /// Whether the machine was started by systemd. sd_booted(3).
    static var isSystemdRunning: Bool { access("/run/systemd/system", F_OK) == 0 }

    /// What the unit says.
    ///
    /// Of systemd's hardening only what needs no namespace. For a unit of a user, ProtectSystem=, PrivateTmp= and the like
    /// mean a user namespace (systemd.exec(5), PrivateUsers=), and in a user namespace the user keyring is another, empty one.
    var text: String {
        """
        [Unit]
        Description=Lock protected files when the session locks, sleeps or ends
        Documentation=man:protectfs(1)

        [Service]
        Type=exec
        ExecStart=\(Self.word(program)) agent run
        Restart=on-failure
        RestartSec=3s
        RestartPreventExitStatus=64 65 66 75 77 78
        Environment=SWIFT_BACKTRACE=enable=no
        KeyringMode=inherit
        LimitCORE=0
        LockPersonality=yes
        MemoryDenyWriteExecute=yes
        NoNewPrivileges=yes
        RestrictAddressFamilies=AF_UNIX
        RestrictNamespaces=yes
        RestrictRealtime=yes
        RestrictSUIDSGID=yes
        SystemCallArchitectures=native
        SystemCallFilter=@system-service memfd_secret
        SystemCallErrorNumber=EPERM
        UMask=0077

        [Install]
        WantedBy=default.target

        """
    }

    /// Writes it where the user's systemd looks.
    func install() throws(Failure) {
        let directory = Locations.configuration.removingLastComponent().removingLastComponent()
            .appending("systemd").appending("user")
        do throws(DataProtectionError) {
            try OwnDirectory.make(directory)
            try AtomicReplace.write(Array(text.utf8), to: Self.name, in: directory, through: ".\(Self.name).new")
        } catch {
            throw Failure(error)
        }
    }

    /// A word of ExecStart=: quoted, with what systemd would replace doubled. systemd.service(5), "Command lines".
    private static func word(_ path: FilePath) -> String {
        let text = path.string.map { character in
            switch character {
            case "%", "$": "\(character)\(character)"
            case "\"", "\\": "\\\(character)"
            default: "\(character)"
            }
        }.joined()
        return text.allSatisfy { $0.isLetter || $0.isNumber || "/._-".contains($0) } ? text : "\"\(text)\""
    }
}
