import DataProtection
import Glibc

/// A program whose standard input and output lead to us; its standard error is ours, unless that leads to us too.
///
/// No core dump of it can be made: the limit that ``ProcessHardening`` sets is inherited.
final class StartedProgram {
    /// What it reads; nobody else has this end.
    private(set) var input: Int32
    /// What it writes.
    private(set) var output: Int32
    private let pid: pid_t
    private var ended: Int32?

    /// Starts a program, which is looked for in PATH if its name has no slash.
    ///
    /// - Throws: status 66 if there is none of that name; 71.
    convenience init(_ program: FilePath, _ arguments: [String] = []) throws(Failure) {
        try self.init(program, words: arguments.map { Array($0.utf8) })
    }

    /// The same, with arguments that need not be UTF-8, such as paths.
    ///
    /// - Parameters:
    ///   - inherited: an open file or directory that is its descriptor 3.
    ///   - tellsErrors: whether what it writes to standard error comes to us, with its output.
    init(
        _ program: FilePath, words: [[UInt8]], inherited: Int32? = nil, tellsErrors: Bool = false
    ) throws(Failure) {
        guard let toIt = Self.pipe() else { throw Self.failure(program, errno) }
        guard let fromIt = Self.pipe() else {
            let reason = errno
            close(toIt.reader)
            close(toIt.writer)
            throw Self.failure(program, reason)
        }
        var process = NewProcess(program, [program.bytes] + words)
        process.descriptors = [(0, .copy(of: toIt.reader)), (1, .copy(of: fromIt.writer))]
        if tellsErrors { process.descriptors.append((2, .copy(of: 1))) }
        // Last: one of the pipe's ends may have this number.
        if let inherited { process.descriptors.append((3, .copy(of: inherited))) }
        // We ignore SIGPIPE, and what is ignored or blocked is inherited.
        process.signals = (usual: [SIGPIPE], blocked: sigset_t())
        defer {
            close(toIt.reader)
            close(fromIt.writer)
        }
        do throws(Errno) { pid = try process.start() } catch {
            close(toIt.writer)
            close(fromIt.reader)
            throw Self.failure(program, error.rawValue)
        }
        (input, output) = (toIt.writer, fromIt.reader)
    }

    deinit { end() }

    /// It has no more to read.
    func closeInput() {
        if input >= 0 { close(input) }
        input = -1
    }

    /// What it writes until it closes its output.
    ///
    /// - Parameter what: the name of this text, for the error.
    func text(_ what: String) throws(Failure) -> String {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(output, &piece, piece.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Failure(.inputOutput, "\(what): \(Errno.current.spoken)") }
            if count == 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += piece[..<count]
        }
    }

    /// Closes both streams, and waits until it has ended.
    ///
    /// - Returns: its exit status, or 128 and the number of the signal that ended it.
    @discardableResult
    func end() -> Int32 {
        closeInput()
        if output >= 0 { close(output) }
        output = -1
        if let ended { return ended }
        let result = NewProcess.wait(for: pid)
        ended = result
        return result
    }

    /// Lets it go on: nobody waits for its end.
    func leave() {
        ended = 0
        closeInput()
        close(output)
        output = -1
    }

    /// A pipe whose ends are closed in every program that is started; nil: errno says why.
    private static func pipe() -> (reader: Int32, writer: Int32)? {
        var ends: [Int32] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { return nil }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    private static func failure(_ program: FilePath, _ error: Int32) -> Failure {
        let reason = Errno(rawValue: error)
        return Failure(
            reason == .noSuchFileOrDirectory ? .notFound : .systemRefused,
            "cannot start \(quoted(program)): \(reason.spoken)")
    }
}
