import CMemoryFiles
import CSpawn
import DataProtection
import Glibc
import SystemPackage

/// A program that runs, spoken to by its standard streams. It is killed when this object goes.
final class CommandProcess {
    private let pid: pid_t
    /// What it reads: written to until it is closed; -1 then.
    private var input: Int32
    /// What it writes: a file in memory, or a stream that is read when somebody asks.
    private let output: Int32
    private let errors: Int32
    private var status: Int32?

    /// How its standard output is read.
    enum Output { case whole, stream }

    /// Starts it.
    ///
    /// - Parameter words: the first is the program: nothing is searched in PATH.
    init(_ words: [[UInt8]], environment: [[UInt8]], output kind: Output = .whole) throws {
        let (ours, theirs) = try Self.channel()
        defer { Glibc.close(theirs) }
        input = ours
        errors = try Self.memoryFile()
        let writer: Int32
        switch kind {
        case .whole:
            output = try Self.memoryFile()
            writer = output
        case .stream: (output, writer) = try Self.channel()
        }
        defer { if kind == .stream { Glibc.close(writer) } }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (descriptor, number) in [(theirs, 0), (writer, 1), (errors, 2)] as [(Int32, Int32)] {
            posix_spawn_file_actions_adddup2(&actions, descriptor, number)
        }
        // If the end of another program's stream stayed open here, its reader would wait for ever.
        protectfs_spawn_with_standard_streams_only(&actions)
        let (arguments, variables) = (Self.pointers(words), Self.pointers(environment))
        defer { for pointer in arguments + variables { free(pointer) } }
        var child = pid_t()
        let error = posix_spawn(&child, arguments[0]!, &actions, nil, arguments, variables)
        guard error == 0 else { throw DataProtectionError.system("", operation: "posix_spawn", Errno(rawValue: error)) }
        pid = child
    }

    deinit {
        if isRunning {
            kill(pid, SIGKILL)
            _ = wait()
        }
        closeInput()
        Glibc.close(output)
        Glibc.close(errors)
    }

    // MARK: talking

    /// Gives it more to read. That it has ended is no error: its status says why.
    func send(_ bytes: [UInt8]) {
        var done = 0
        while done < bytes.count {
            let count = bytes[done...].withUnsafeBytes {
                Glibc.send(input, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count < 0 && errno != EINTR { return }
            done += max(count, 0)
        }
    }

    /// Lets somebody write to what it reads.
    func send<E: Error>(_ body: (_ descriptor: Int32) throws(E) -> Void) throws(E) { try body(input) }

    /// It has read all that there is.
    func closeInput() {
        if input >= 0 { Glibc.close(input) }
        input = -1
    }

    /// Waits until there is something in the stream, or its end; half a minute at most.
    func waitForOutput() {
        var ready = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
        while poll(&ready, 1, 30_000) < 0 && errno == EINTR {}
    }

    /// Everything that is in the stream, and that it writes there from now on.
    func restOfStream() throws -> [UInt8] { try RawFile.bytes(of: output, "") }

    // MARK: ending

    /// Whether it has not ended yet.
    var isRunning: Bool {
        if status != nil { return false }
        var raw: Int32 = 0
        guard waitpid(pid, &raw, WNOHANG) == pid else { return true }
        status = Self.exitStatus(raw)
        return false
    }

    /// Asks it to end, by SIGTERM.
    func terminate() { if isRunning { kill(pid, SIGTERM) } }

    /// Waits for its end: the exit status, or 128 and the number of the signal that ended it.
    func wait() -> Int32 {
        if let status { return status }
        var raw: Int32 = 0
        while waitpid(pid, &raw, 0) == -1 && errno == EINTR {}
        let result = Self.exitStatus(raw)
        status = result
        return result
    }

    /// Waits for its end; what it wrote.
    ///
    /// - Throws: ``Refusal`` if its status is not 0.
    @discardableResult
    func finish() throws -> [UInt8] {
        closeInput()
        let status = wait()
        guard status == 0 else { throw Refusal(status: status, errors: try written(errors)) }
        return try written(output)
    }

    /// The command did not do what was asked.
    struct Refusal: Error, CustomStringConvertible {
        let status: Int32
        private let errors: String

        init(status: Int32, errors: [UInt8]) {
            (self.status, self.errors) = (status, String(decoding: errors, as: UTF8.self))
        }

        /// What it said.
        var message: String {
            errors.split(separator: "\n").first { $0.contains(" error: ") }.map(String.init) ?? errors
        }
        var description: String { "status \(status): \(message)" }
    }

    private func written(_ descriptor: Int32) throws -> [UInt8] {
        lseek(descriptor, 0, SEEK_SET)  // a stream has no places, and is at its end
        return try RawFile.bytes(of: descriptor, "")
    }

    private static func exitStatus(_ raw: Int32) -> Int32 { raw & 0x7F == 0 ? raw >> 8 & 0xFF : 128 + raw & 0x7F }

    // MARK: streams

    /// A socket and not a pipe: who writes to a process that has ended gets no SIGPIPE.
    private static func channel() throws -> (Int32, Int32) {
        var ends: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw DataProtectionError.failed("", "socketpair")
        }
        return (ends[0], ends[1])
    }

    private static func memoryFile() throws -> Int32 {
        let file = protectfs_memory_file()
        guard file >= 0 else { throw DataProtectionError.failed("", "memfd_create") }
        return file
    }

    private static func pointers(_ words: [[UInt8]]) -> [UnsafeMutablePointer<CChar>?] {
        words.map { word in
            (word + [0]).withUnsafeBytes { strdup($0.assumingMemoryBound(to: CChar.self).baseAddress!) }
        } + [nil]
    }
}
