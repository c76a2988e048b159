import DataProtection
import Glibc

/// Removes a directory as soon as this process is dead, however it died: a shell that waits for the end of a pipe of which
/// only this process holds the other end.
///
/// It is in a session of its own, so that neither Ctrl-C nor a signal to our process group reaches it.
struct EditGuardian {
    private let pid: pid_t
    private let writer: Int32

    private static let script = "read -r _; rm -rf -- \"$1\""

    /// - Throws: status 71.
    init(over directory: FilePath) throws(Failure) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Self.failure(Errno.current) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        defer { close(ends[0]) }

        var shell = NewProcess("/bin/sh", ["sh", "-c", Self.script, "sh"].map { Array($0.utf8) } + [directory.bytes])
        shell.environment = [Array("PATH=/usr/bin:/bin".utf8)]
        shell.descriptors = [(0, .copy(of: ends[0])), (1, .null), (2, .null)]
        shell.isInSessionOfItsOwn = true
        do throws(Errno) { pid = try shell.start() } catch {
            close(ends[1])
            throw Self.failure(error)
        }
        writer = ends[1]
    }

    /// Lets it go, when there is nothing left to remove.
    func dismiss() {
        close(writer)
        NewProcess.wait(for: pid)
    }

    private static func failure(_ errno: Errno) -> Failure {
        Failure(.systemRefused, "cannot start /bin/sh: \(errno.spoken)")
    }
}
