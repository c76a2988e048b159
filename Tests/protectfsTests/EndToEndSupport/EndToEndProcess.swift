import CSpawn
import Glibc
import SystemPackage

/// A program that runs: words, environment, and where its standard streams lead.
///
/// No signal is blocked or handled in it, whatever the thread that starts it does.
final class EndToEndProcess {
    let pid: pid_t
    private var ended: Int32?

    /// Where a program begins.
    struct Place {
        let directory: String
        /// What descriptor 3 reads, if there is to be one.
        let further: String?
    }

    /// Starts `words[0]`, found in PATH.
    ///
    /// - Parameter place: where it begins, in a session of its own, as setsid(1) does it; nil: here, in this one.
    init(
        _ words: [String], environment: [String: String], input: FileDescriptor, output: FileDescriptor,
        errors: FileDescriptor, at place: Place? = nil
    ) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (number, descriptor) in [input, output, errors].enumerated() {
            posix_spawn_file_actions_adddup2(&actions, descriptor.rawValue, Int32(number))
        }
        // Foundation waits for a process by the end of a stream; kept open here, it would never come.
        protectfs_spawn_with_standard_streams_only(&actions)
        var flags = Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
        if let place {
            flags |= protectfs_spawn_in_new_session
            if let further = place.further {
                posix_spawn_file_actions_addopen(&actions, 3, further, O_RDONLY, 0)
            }
            protectfs_spawn_in_directory(&actions, place.directory)
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, flags)

        var arguments = words.map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in arguments + variables { free(text) } }
        var child: pid_t = 0
        let error = posix_spawnp(&child, words[0], &actions, &attributes, &arguments, &variables)
        guard error == 0 else { throw Errno(rawValue: error) }
        pid = child
    }

    deinit { terminate() }

    /// Whether it has not ended yet.
    var isRunning: Bool {
        if ended != nil { return false }
        var status: Int32 = 0
        guard waitpid(pid, &status, WNOHANG) == pid else { return true }
        ended = Self.exitStatus(status)
        return false
    }

    /// Waits for the end: the exit status, or 128 and the number of the signal that ended it.
    func wait() -> Int32 {
        if let ended { return ended }
        var status: Int32 = 0
        while waitpid(pid, &status, 0) == -1 && errno == EINTR {}
        let result = Self.exitStatus(status)
        ended = result
        return result
    }

    /// kill -9, unless it has ended by itself. What it has started goes on.
    func end() { end(by: SIGKILL) }

    /// SIGTERM: su(1) hands it on to what it has started.
    func terminate() { end(by: SIGTERM) }

    private func end(by signal: Int32) {
        guard isRunning else { return }
        kill(pid, signal)
        _ = wait()
    }

    private static func exitStatus(_ status: Int32) -> Int32 {
        let signal = status & 0x7F
        return signal == 0 ? status >> 8 & 0xFF : 128 + signal
    }
}

extension FileDescriptor {
    /// A channel to a program. Both ends close on exec: no other program keeps them open.
    static func socketPair() throws -> (FileDescriptor, FileDescriptor) {
        var ends: [Int32] = [0, 0]
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw Errno(rawValue: errno) }
        return (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    }
}

/// A file without a name, for what a program reads or writes: nothing of it is left in any directory.
final class NamelessFile {
    let descriptor: FileDescriptor

    init(_ bytes: [UInt8] = []) throws {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let name = "\(parent)/protectfs-end-to-end-\(UInt64.random(in: 0...UInt64.max))"
        let raw = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard raw >= 0, unlink(name) == 0 else { throw Errno(rawValue: errno) }
        descriptor = FileDescriptor(rawValue: raw)
        try descriptor.writeAll(bytes)
        try descriptor.seek(offset: 0, from: .start)
    }

    deinit { try? descriptor.close() }

    /// All of it, wherever the shared offset is.
    func contents() throws -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = try buffer.withUnsafeMutableBytes {
                try descriptor.read(fromAbsoluteOffset: Int64(bytes.count), into: $0)
            }
            if count == 0 { return bytes }
            bytes += buffer[..<count]
        }
    }
}

/// A program that ran to its end, and what it left behind.
struct EndToEndRun: CustomStringConvertible {
    let words: [String]
    let status: Int32
    let output: [UInt8]
    let errors: String

    init(_ words: [String], environment: [String: String], input: [UInt8] = []) throws {
        let (stdin, stdout, stderr) = (try NamelessFile(input), try NamelessFile(), try NamelessFile())
        let process = try EndToEndProcess(
            words, environment: environment, input: stdin.descriptor, output: stdout.descriptor,
            errors: stderr.descriptor)
        status = process.wait()
        self.words = words
        output = try stdout.contents()
        errors = String(decoding: try stderr.contents(), as: UTF8.self)
    }

    /// Standard output as text.
    var text: String { String(decoding: output, as: UTF8.self) }

    /// What a failed expectation shows.
    var description: String {
        "\(words.joined(separator: " ")): status \(status), \(output.count) bytes\n\(errors)"
    }
}
