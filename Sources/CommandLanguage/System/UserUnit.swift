import DataProtection
import Glibc

/// A unit of the user's own systemd that runs a program of protectfs from login on.
package struct UserUnit {
    /// `protectfs-agent.service`
    package let name: String
    let summary: String
    /// The command, as an absolute path, and what it is told.
    let program: FilePath
    let words: String
    /// What runs as long as the session; nil if the program is run once.
    private let service: Service?

    private struct Service {
        /// How long after a failure it is started again, and after which statuses not.
        let restartDelay: String
        let finalStatuses: String
        /// Which sockets it needs.
        let addressFamilies: String
    }

    package init(
        _ name: String, _ summary: String, running program: FilePath, _ words: String, restartDelay: String,
        finalStatuses: String, addressFamilies: String
    ) {
        (self.name, self.summary, self.program, self.words) = (name, summary, program, words)
        service = Service(
            restartDelay: restartDelay, finalStatuses: finalStatuses, addressFamilies: addressFamilies)
    }

    /// Runs a program once at each login. What it starts ends with the unit, by SIGTERM.
    package init(once name: String, _ summary: String, running program: FilePath, _ words: String) {
        (self.name, self.summary, self.program, self.words) = (name, summary, program, words)
        service = nil
    }

    /// Whether the machine was started by systemd. sd_booted(3).
    package static var isSystemdRunning: Bool { access("/run/systemd/system", F_OK) == 0 }

    /// What the unit says.
    ///
    /// Of systemd's hardening only what needs no namespace. For a unit of a user, ProtectSystem=, PrivateTmp= and the like
    /// mean a user namespace (systemd.exec(5), PrivateUsers=), and in a user namespace the user keyring is another, empty one.
    package var text: String {
        """
        [Unit]
        Description=\(summary)
        Documentation=man:protectfs(1)

        [Service]
        \(service.map(lasting) ?? once)
        Environment=SWIFT_BACKTRACE=enable=no
        KeyringMode=inherit
        LimitCORE=0
        UMask=0077

        [Install]
        WantedBy=default.target

        """
    }

    /// Without hardening: each of systemd's settings would take fusermount3(1) its setuid bit.
    private var once: String {
        """
        Type=oneshot
        RemainAfterExit=yes
        \(command)
        """
    }

    private func lasting(_ service: Service) -> String {
        """
        Type=exec
        \(command)
        Restart=on-failure
        RestartSec=\(service.restartDelay)
        RestartPreventExitStatus=\(service.finalStatuses)
        LockPersonality=yes
        MemoryDenyWriteExecute=yes
        NoNewPrivileges=yes
        RestrictAddressFamilies=\(service.addressFamilies)
        RestrictNamespaces=yes
        RestrictRealtime=yes
        RestrictSUIDSGID=yes
        SystemCallArchitectures=native
        SystemCallFilter=@system-service memfd_secret
        SystemCallErrorNumber=EPERM
        """
    }

    private var command: String { "ExecStart=\(Self.word(program)) \(words)" }

    /// Writes it, enables it and starts it; or says what to do where there is no systemd.
    ///
    /// Where a package has installed the unit, that unit is enabled and started, and nothing is written.
    ///
    /// - Parameter isPrinted: print the unit instead, and change nothing.
    package func install(isPrinted: Bool) throws {
        if isPrinted { return try StandardOutput.write(text) }
        guard Self.isSystemdRunning else {
            throw Failure(
                .unavailable, "systemd does not run here, so nothing is installed",
                hint: "put this where your session starts programs: \(quoted(program)) \(words) &")
        }
        if isPackaged() {
            if let own = copyThatHidesPackage() {
                StandardError.line(.warning, "\(quoted(own)) hides the unit of the package")
                StandardError.line(.hint, "unless you have changed it, remove it: rm \(quoted(own))")
            }
        } else {
            try write()
        }
        for words in [["daemon-reload"], ["enable", "--now", name]] { try Self.systemctl(words) }
    }

    /// Where packages install units of users. systemd.unit(5), "Unit File Load Path".
    private static let packaged: FilePath = "/usr/lib/systemd/user"

    /// Where the user's own units are, which come before those of packages.
    private static var own: FilePath {
        Locations.configuration.removingLastComponent().removingLastComponent().appending("systemd").appending("user")
    }

    /// Whether a package has installed a unit of this name that runs the same command.
    private func isPackaged() -> Bool {
        let unit = try? LowerFile(Self.packaged.appending(name), flags: O_RDONLY).text()
        return unit?.split(separator: "\n").contains(Substring(command)) == true
    }

    /// A file of the user's that systemd takes instead of the unit of the package; nil: there is none, or no such package.
    package func copyThatHidesPackage() -> FilePath? {
        let own = Self.own.appending(name)
        return isPackaged() && own.withPlatformString({ access($0, F_OK) }) == 0 ? own : nil
    }

    /// Writes it where the user's systemd looks.
    package func write() throws(Failure) {
        let directory = Self.own
        do throws(DataProtectionError) {
            try OwnDirectory.make(directory)
            try AtomicReplace.write(Array(text.utf8), to: name, in: directory, through: ".\(name).new")
        } catch {
            throw Failure(error)
        }
    }

    private static func systemctl(_ words: [String]) throws(Failure) {
        let command = ["systemctl", "--user"] + words
        // PATH is the user's own here: nothing is handed over.
        let status: Int32
        do throws(Errno) {
            status = NewProcess.wait(for: try NewProcess("systemctl", command).start())
        } catch {
            throw Failure(.systemRefused, "systemctl: \(error.spoken)")
        }
        guard status == 0 else {
            throw Failure(
                .systemRefused, "\(command.joined(separator: " ")) failed",
                hint: "the unit is written; try again in a session of this user's own, not by su or sudo")
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
