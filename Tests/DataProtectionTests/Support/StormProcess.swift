import CSpawn
import Glibc
import SystemPackage
import Testing

/// The worker in a process of its own: spoken to by lines, and killed.
final class StormProcess {
    let pid: pid_t
    private let channel: FileDescriptor
    private var received: [UInt8] = []
    private var isOver = false

    /// Next to the test runner, where the build put it; or the one that `PROTECTFS_STORM_WORKER` names.
    static let executable: String = {
        if let given = getenv("PROTECTFS_STORM_WORKER") { return String(cString: given) }
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        let runner = FilePath(String(decoding: buffer[..<max(count, 0)].map { UInt8(bitPattern: $0) }, as: UTF8.self))
        return runner.removingLastComponent().appending("storm-worker").string
    }()

    /// Starts `storm-worker KEYBAG arguments…`.
    ///
    /// - Parameter wrapper: a command that runs it, looked up in PATH.
    init(_ keybag: FilePath, _ arguments: [String], wrapper: [String] = []) throws {
        let (own, others) = try Self.socketPair()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, others.rawValue, 0)
        posix_spawn_file_actions_adddup2(&actions, others.rawValue, 1)
        // Foundation waits for a process by the end of a stream; kept open here, it would never come.
        protectfs_spawn_with_standard_streams_only(&actions)
        // A group of its own: a tracer and what it traces are killed together.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP))
        var argv = (wrapper + [Self.executable, keybag.string] + arguments).map { strdup($0) } + [nil]
        defer { for argument in argv { free(argument) } }
        var child: pid_t = 0
        let error = posix_spawnp(&child, argv[0]!, &actions, &attributes, &argv, environ)
        guard error == 0 else { throw Errno(rawValue: error) }
        pid = child
        try others.close()
        channel = own
    }

    /// One system call of one kind: by strace(1) the worker is killed on its way into it, or gets an error from it.
    struct Call: CustomStringConvertible {
        let name: String
        /// From 1.
        let number: Int
        /// The name of the error; nil: it is killed.
        var error: String?
        /// Only calls on this file are counted; nil: all.
        var path: FilePath?

        var wrapper: [String] {
            let inject = "inject=\(name):\(error.map { "error=\($0)" } ?? "signal=KILL"):when=\(number)"
            let only = path.map { ["-P", $0.string] } ?? []
            return ["strace", "-qq", "-f", "-o", "/dev/null"] + only + ["-e", "trace=\(name)", "-e", inject]
        }
        var description: String { "\(name) \(number)" }
    }

    /// A workload from its step `first` on.
    ///
    /// - Parameters:
    ///   - call: where it is killed; nil: by ``kill(after:)``.
    ///   - inStep: after each acknowledgement it waits for ``next()``.
    convenience init(
        _ bed: FileTestBed, _ workload: String, seed: UInt64, first: Int, _ rest: [String], until call: Call? = nil,
        inStep: Bool = false
    ) throws {
        if call?.error != nil { try bed.silenceClients() }
        let wrapper = inStep ? ["env", "PROTECTFS_IN_STEP=1"] : call?.wrapper ?? []
        try self.init(bed.keybag.directory, [workload, "\(seed)", "\(first)"] + rest, wrapper: wrapper)
    }

    /// Whether there is an strace(1) that can kill at a system call.
    static let canKillAtCalls: Bool = {
        let wrapper = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=none"]
        let worker = try? StormProcess("/nowhere", ["serve"], wrapper: wrapper)
        return (try? worker?.line())??.hasPrefix("error") ?? false
    }()

    deinit {
        if !isOver { _ = end() }
        try? channel.close()
    }

    /// Both ends close on exec: no other worker keeps them open.
    private static func socketPair() throws -> (FileDescriptor, FileDescriptor) {
        var ends: [Int32] = [0, 0]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw Errno(rawValue: errno) }
        return (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    }

    /// The next line, or nil when the worker has ended.
    func line() throws -> String? {
        while true {
            if let end = received.firstIndex(of: 10) {
                defer { received.removeSubrange(...end) }
                return String(decoding: received[..<end], as: UTF8.self)
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = try buffer.withUnsafeMutableBytes { try channel.read(into: $0) }
            if count == 0 { return nil }
            received += buffer[..<count]
        }
    }

    /// The number of the next acknowledged step.
    ///
    /// - Throws: what the worker says when something failed.
    func acknowledgement() throws -> Int? {
        guard let line = try line() else { return nil }
        guard let number = Int(line) else { throw Failed(message: line) }
        return number
    }

    /// Says a line to a worker that serves, and returns its answer.
    func ask(_ question: String) throws -> String {
        try channel.writeAll(Array("\(question)\n".utf8))
        return try line() ?? "the worker has ended"
    }

    /// Lets a worker that was started `inStep` make its next step.
    func next() throws { _ = try channel.writeAll([0]) }

    /// Says a line, and does not wait for the answer.
    func say(_ question: String) throws { _ = try channel.writeAll(Array("\(question)\n".utf8)) }

    /// SIGSTOP. Returns when no thread of it runs any more: one takes the signal and stops the others, which go on until then.
    func stop() {
        _ = Glibc.kill(pid, SIGSTOP)
        var information = siginfo_t()
        while waitid(P_PID, id_t(pid), &information, WSTOPPED) == -1 && errno == EINTR {}
    }

    /// kill -9.
    ///
    /// - Returns: the last step that it acknowledged before it died and that was not read yet, else `last`.
    func kill(after last: Int?) throws -> Int? {
        guard end() == SIGKILL else { throw Failed(message: "the worker ended before it was killed") }
        return try rest(after: last)
    }

    /// Waits until the worker was killed at its call.
    ///
    /// - Returns: the last step that it acknowledged before, else `last`.
    func killed(after last: Int?) throws -> Int? {
        var last = last
        for _ in 0..<2000 {
            guard let number = try acknowledgement() else {
                guard end() == SIGKILL else { throw Failed(message: "the worker ended before it was killed") }
                return last
            }
            last = number
        }
        throw Failed(message: "the worker never makes the call at which it was to be killed")
    }

    private func rest(after last: Int?) throws -> Int? {
        var last = last
        while let number = try acknowledgement() { last = number }
        return last
    }

    private func end() -> Int32 {
        isOver = true
        _ = Glibc.kill(-pid, SIGKILL)
        var status: Int32 = 0
        while waitpid(pid, &status, 0) == -1 && errno == EINTR {}
        return status & 0x7F
    }

    /// What the worker said instead of acknowledging a step.
    struct Failed: Error { let message: String }
}
