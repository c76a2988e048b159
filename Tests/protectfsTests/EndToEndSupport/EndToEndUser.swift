import DataProtection
import Foundation
import SystemPackage
import Testing

/// Somebody with a home directory, a keybag in the usual place there, and several ways to have a session.
///
/// Keys, home and, if it was made for the test, the account go when this object goes.
final class EndToEndUser {
    static let passcode = "a passcode for tests"
    /// What only root can do.
    static let canMakeUsers = geteuid() == 0
    static let whyNot: Comment = "only root can make a user and run something as it"

    let name: String
    let uid: uid_t
    private let gid: gid_t
    let home: FilePath
    /// The program and the worker, where this user may run them.
    let programs: FilePath
    /// The caller's own; of another user only the name can be used in this process.
    let keybag: Keybag
    private let account: MadeAccount?
    /// Holds the home directory of a user that has no account of its own.
    private let directory: EndToEndDirectory

    /// The user that runs the tests, in a home directory of the test's own.
    static func caller() throws -> EndToEndUser {
        let name = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) } ?? "\(geteuid())"
        return try EndToEndUser(name: name, uid: geteuid(), gid: getegid(), account: nil)
    }

    /// An ordinary user that exists for the test only.
    static func made() throws -> EndToEndUser {
        let account = try MadeAccount()
        return try EndToEndUser(name: account.name, uid: account.uid, gid: account.gid, account: account)
    }

    private init(name: String, uid: uid_t, gid: gid_t, account: MadeAccount?) throws {
        directory = try EndToEndDirectory()
        (self.name, self.uid, self.gid, self.account) = (name, uid, gid, account)
        home = account?.home ?? directory.path.appending("home")
        if account == nil { try home.makeDirectory() }
        keybag = try Self.makeKeybag(in: home)
        programs = account == nil ? Self.builtPrograms : directory.path.appending("bin")
        if account != nil {
            try copyPrograms()
            try give(home)
        }
    }

    deinit {
        // A user who goes leaves nothing in the kernel that the next one with that uid would find.
        if account == nil { try? keybag.evictEverything() } else { _ = try? run(["keyctl", "clear", "@u"]) }
    }

    // MARK: keybag

    /// A keybag with the fewest iterations that a reader accepts; nothing is unlocked.
    private static func makeKeybag(in home: FilePath) throws -> Keybag {
        let passcode = Array(Self.passcode.utf8)
        let secret = SecretBytes(byteCount: passcode.count) { $0.copyBytes(from: passcode) }
        let place = home.appending(".local").appending("share").appending("protectfs").appending("default")
        let device = home.appending(".local").appending("state").appending("protectfs").appending("device-key")
        return try Keybag.create(at: place, passcode: secret, iterations: 1000, deviceKey: device)
    }

    /// The description of the key with A and B private (1), or C (2), in the kernel keyring.
    func keyName(_ number: Int) -> String { "protectfs:\(keybag.uuid):\(number)" }

    /// chown -R: what root made is this user's.
    func give(_ path: FilePath) throws {
        let done = try EndToEndRun(["chown", "-R", "\(uid):\(gid)", path.string], environment: environment)
        guard done.status == 0 else { throw Unexpected(done) }
    }

    // MARK: running

    /// A kind of session, each with other keyrings.
    enum Session: String, CaseIterable {
        /// Like the process that runs the tests.
        case plain
        /// A session without a terminal.
        case setsid
        /// A session keyring in which nothing is linked, as services of systemd have.
        case freshKeyring
        /// A login, with a session keyring by PAM.
        case login

        /// Only root becomes somebody by su(1) without being asked for a password.
        static let available: [Session] = canMakeUsers ? allCases : [.plain, .setsid, .freshKeyring]
    }

    /// The kinds of session that this user can have here.
    var sessions: [Session] { Session.available }

    /// Runs a command to its end.
    @discardableResult
    func run(_ command: [String], in session: Session = .plain, input: [UInt8] = []) throws -> EndToEndRun {
        try EndToEndRun(words(command, in: session), environment: environment, input: input)
    }

    /// Starts a command whose output nobody reads.
    func start(_ command: [String], in session: Session = .plain) throws -> EndToEndProcess {
        let (input, output) = (try NamelessFile(), try NamelessFile())
        return try EndToEndProcess(
            words(command, in: session), environment: environment, input: input.descriptor,
            output: output.descriptor, errors: output.descriptor)
    }

    /// The words that run `command` as this user in such a session, and nothing in the environment but what is said here.
    func words(_ command: [String], in session: Session) -> [String] {
        let program = programs.appending(command[0]).string
        let inner =
            ["env", "-i"] + environment.map { "\($0.key)=\($0.value)" }.sorted()
            + [FileManager.default.isExecutableFile(atPath: program) ? program : command[0]] + command.dropFirst()
        switch session {
        case .plain: return asUser + inner
        case .setsid: return asUser + ["setsid", "--wait"] + inner
        case .freshKeyring: return asUser + ["keyctl", "session", "-"] + inner
        case .login: return ["su", "-", name, "-c", "exec " + inner.map(Self.quoted).joined(separator: " ")]
        }
    }

    private var asUser: [String] {
        uid == geteuid() ? [] : ["setpriv", "--reuid=\(uid)", "--regid=\(gid)", "--clear-groups", "--"]
    }

    var environment: [String: String] {
        [
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home.string, "LC_ALL": "C",
            "SWIFT_BACKTRACE": "enable=no",
        ]
    }

    private static func quoted(_ word: String) -> String {
        "'" + word.replacing("'", with: "'\\''") + "'"
    }

    // MARK: programs

    /// Beside the test runner, where the build put them.
    static let builtPrograms: FilePath = {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        let runner = FilePath(String(decoding: buffer[..<max(count, 0)].map { UInt8(bitPattern: $0) }, as: UTF8.self))
        return runner.removingLastComponent()
    }()

    /// The checkout may lie where only its owner can go.
    ///
    /// By cp(1): a descriptor of this process that is open for writing may be inherited by what another test starts just
    /// then, and the copy cannot be run that long (ETXTBSY).
    private func copyPrograms() throws {
        try programs.makeDirectory()
        let names = [
            "protectfs", "protectfs-agent", "protectfs-download", "protectfs-mount", "protectfs-secrets",
            "storm-worker",
        ]
        for name in names {
            let (original, copy) = (Self.builtPrograms.appending(name).string, programs.appending(name).string)
            // 30 MB each: a second name will do, where this is the same file system.
            if link(original, copy) == 0 { continue }
            let copied = try EndToEndRun(["cp", original, copy], environment: environment)
            guard copied.status == 0 else { throw Unexpected(copied) }
        }
        let version = try run(["protectfs", "--version"])
        guard version.status == 0 else { throw Unexpected(version) }
    }

    /// What went wrong while a test was being prepared.
    struct Unexpected: Error, CustomStringConvertible {
        let description: String
        init(_ run: EndToEndRun) { description = run.description }
    }
}

/// An account with a random name: useradd(8), and userdel -r in the end.
private final class MadeAccount {
    let name: String
    let uid: uid_t
    let gid: gid_t
    let home: FilePath

    init() throws {
        name = "protectfs-" + String(UInt32.random(in: 0...UInt32.max), radix: 36)
        // Another test, or an administrator, may have the lock on the user database for a moment.
        var made = try Self.run(["useradd", "--create-home", "--shell", "/bin/sh", name])
        for _ in 0..<50 where made.status == 1 {
            usleep(100_000)
            made = try Self.run(["useradd", "--create-home", "--shell", "/bin/sh", name])
        }
        guard made.status == 0, let entry = getpwnam(name) else { throw EndToEndUser.Unexpected(made) }
        (uid, gid) = (entry.pointee.pw_uid, entry.pointee.pw_gid)
        home = FilePath(platformString: entry.pointee.pw_dir)
    }

    deinit {
        for _ in 0..<50 {
            guard let done = try? Self.run(["userdel", "--force", "--remove", name]), done.status == 1 else { return }
            usleep(100_000)
        }
    }

    private static func run(_ words: [String]) throws -> EndToEndRun {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return try EndToEndRun(["env"] + words, environment: ["PATH": path, "LC_ALL": "C"])
    }
}
