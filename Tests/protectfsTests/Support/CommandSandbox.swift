import DataProtection
import Foundation
import TestEffort

@testable import DataProtection

/// The XDG directories of this test process itself: making a keybag here must not reach those of the user.
private let isolatedHome: Void = {
    guard getenv("PROTECTFS_TEST_HOME") == nil else { return }
    let home = CommandSandbox.makeDirectory("protectfs-home")
    for (variable, name) in [("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")] {
        setenv(variable, home + "/" + name, 1)
    }
    setenv("PROTECTFS_TEST_HOME", home, 1)
    unsetenv("PROTECTFS_KEYBAG")
    atexit {
        if let home = getenv("PROTECTFS_TEST_HOME") {
            try? FileManager.default.removeItem(atPath: String(cString: home))
        }
    }
}()

/// What a command left behind.
struct Finished {
    let status: Int32
    let output: Data
    let errors: String

    /// Standard output as text.
    var text: String { String(decoding: output, as: UTF8.self) }

    /// Standard output as JSON.
    func json() throws -> Any { try JSONSerialization.jsonObject(with: output) }
}

/// A home for the built command: directories of its own, and a keybag with few iterations.
///
/// Files and keys go when this object goes.
final class CommandSandbox: Sendable {
    static let passcode = "a passcode for tests"

    /// Holds everything; tests put their files here, and commands run here.
    let root: String
    /// The keybag's directory: the one of `PROTECTFS_KEYBAG`.
    let keybagDirectory: String

    /// What its commands see beside the usual.
    private let variables: [String: String]
    private let derivesForReal: Bool

    /// - Parameters:
    ///   - parent: where its directory is made; nil: where temporary files are.
    ///   - makesKeybag: false: there is none yet.
    ///   - derivesForReal: its commands run PBKDF2 as often as a keybag says, as they do everywhere at full effort.
    ///   - variables: more for the environment of its commands.
    init(
        in parent: String? = nil, makesKeybag: Bool = true, derivesForReal: Bool = false,
        variables: [String: String] = [:]
    ) throws {
        _ = isolatedHome
        self.variables = variables
        self.derivesForReal = derivesForReal
        root = Self.makeDirectory("protectfs-command", in: parent)
        keybagDirectory = root + "/keybag"
        if makesKeybag { try makeKeybag() }
    }

    deinit {
        evictKeys(of: keybagDirectory)
        try? FileManager.default.removeItem(atPath: root)
    }

    /// Evicts by the ring's names alone.
    func evictKeys(of directory: String) {
        if let keybag = try? Keybag(at: FilePath(directory)) { try? keybag.ring.evict(everything: true) }
    }

    /// Makes the keybag, with the fewest iterations that a reader accepts.
    func makeKeybag(in directory: String? = nil, iterations: Int = 1000) throws {
        let secret = SecretBytes(byteCount: Self.passcode.utf8.count) { $0.copyBytes(from: Self.passcode.utf8) }
        try Keybag.create(
            at: FilePath(directory ?? keybagDirectory), passcode: secret, iterations: iterations,
            deviceKey: FilePath(root + "/state/protectfs/device-key"))
    }

    /// The built command, beside the test runner.
    static let executable: String = {
        let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(fileURLWithPath: own).deletingLastPathComponent().appendingPathComponent("protectfs").path
    }()

    /// What a command of this sandbox sees.
    var environment: [String: String] {
        [
            "PATH": "/usr/bin:/bin", "HOME": root + "/home", "LC_ALL": "C", "SWIFT_BACKTRACE": "enable=no",
            "XDG_DATA_HOME": root + "/data", "XDG_STATE_HOME": root + "/state", "XDG_CONFIG_HOME": root + "/config",
            "PROTECTFS_KEYBAG": keybagDirectory, "PROTECTFS": Self.executable,
        ].merging(Self.sanitizers) { $1 }.merging(rounds) { $1 }.merging(variables) { $1 }
    }

    /// Sources/ProtectionKeys/PBKDF2.swift: only builds for tests look at it.
    private var rounds: [String: String] {
        derivesForReal || Effort.level == 100 ? [:] : ["PROTECTFS_FEWEST_ROUNDS": "yes"]
    }

    /// Runs `body`, which derives keys in this process, as the commands derive theirs.
    @discardableResult
    func derivingAlike<R: ~Copyable, E: Error>(_ body: () throws(E) -> R) throws(E) -> R {
        for (name, value) in rounds { setenv(name, value, 1) }
        defer { for name in rounds.keys { unsetenv(name) } }
        return try body()
    }

    /// What a command that is built with a sanitizer must know too.
    private static let sanitizers = ProcessInfo.processInfo.environment.filter {
        ["TSAN_OPTIONS", "ASAN_OPTIONS"].contains($0.key)
    }

    /// Keybags that are made in this process are not remembered among the user's.
    static func isolate() { _ = isolatedHome }

    // MARK: running

    /// Runs `protectfs` without a terminal.
    ///
    /// - Parameter passcodes: what descriptor 3 gives.
    @discardableResult
    func run(_ arguments: String..., input: Data = Data(), passcodes: Data = Data()) throws -> Finished {
        try run(arguments, input: input, passcodes: passcodes)
    }

    func run(_ arguments: [String], input: Data = Data(), passcodes: Data = Data()) throws -> Finished {
        let file = root + "/.passcodes-\(UUID().uuidString)"
        try passcodes.write(to: URL(fileURLWithPath: file))
        defer { unlink(file) }
        return try finish([environment["PROTECTFS"]!] + arguments, input: input, passcodes: file)
    }

    /// Runs a shell script; its `$0` is the first argument. There is no terminal.
    func shell(_ script: String, _ arguments: [String] = [], input: Data = Data()) throws -> Finished {
        try finish(["/bin/sh", "-c", script] + arguments, input: input, passcodes: nil)
    }

    /// Runs a program to its end. Without setsid(1), env(1) and a shell in front of it, which take half as long as the command.
    private func finish(_ words: [String], input: Data, passcodes: String?) throws -> Finished {
        let (stdin, stdout, stderr) = (try NamelessFile(Array(input)), try NamelessFile(), try NamelessFile())
        let process = try EndToEndProcess(
            words, environment: environment, input: stdin.descriptor, output: stdout.descriptor,
            errors: stderr.descriptor, at: EndToEndProcess.Place(directory: root, further: passcodes))
        let status = process.wait()
        return Finished(
            status: status, output: Data(try stdout.contents()),
            errors: String(decoding: try stderr.contents(), as: UTF8.self))
    }

    /// A process of this sandbox that is not running yet.
    func start(_ executable: String, _ arguments: [String], input: Any) -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: executable)
        process.arguments = arguments
        process.environment = environment
        process.currentDirectoryURL = URL(fileURLWithPath: root)
        process.standardInput = input
        return process
    }

    /// Unlocks with the right passcode.
    func unlock(_ options: String...) throws {
        let done = try run(["unlock", "--passcode-fd", "3"] + options, passcodes: Data(Self.passcode.utf8))
        guard done.status == 0 else { throw Unexpected(done.errors) }
    }

    /// What went wrong while a test was being prepared.
    struct Unexpected: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    // MARK: files

    /// Where `name` is.
    func path(_ name: String) -> String { root + "/" + name }

    /// Makes a plaintext file, and the directories it is in.
    func put(_ text: String, at name: String) throws {
        let url = URL(fileURLWithPath: path(name))
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: url)
    }

    /// Makes a protected file.
    func protectedFile(_ name: String, _ contents: Data = Data("text\n".utf8), _ className: String = "complete") throws
    {
        let done = try run("write", "--class", className, name, input: contents)
        guard done.status == 0 else { throw Unexpected(done.errors) }
    }

    /// The stored bytes of a file.
    func stored(_ name: String) throws -> Data { try Data(contentsOf: URL(fileURLWithPath: path(name))) }

    fileprivate static func makeDirectory(_ name: String, in parent: String? = nil) -> String {
        let parent = parent ?? getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/\(name)-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("mkdtemp: \(errno)") }
        return template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }
}
