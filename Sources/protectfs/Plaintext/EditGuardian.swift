import CSpawn
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

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[0], 0)
        for stream: Int32 in 1...2 { posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        posix_spawnattr_setflags(&attributes, protectfs_spawn_in_new_session)

        let words = CWords(["sh", "-c", Self.script, "sh"].map { Array($0.utf8) } + [directory.bytes])
        let variables = CWords(["PATH=/usr/bin:/bin"])
        var child: pid_t = 0
        let error = posix_spawn(&child, "/bin/sh", &actions, &attributes, &words.pointers, &variables.pointers)
        guard error == 0 else {
            close(ends[1])
            throw Self.failure(Errno(rawValue: error))
        }
        (pid, writer) = (child, ends[1])
    }

    /// Lets it go, when there is nothing left to remove.
    func dismiss() {
        close(writer)
        while waitpid(pid, nil, 0) == -1 && errno == EINTR {}
    }

    private static func failure(_ errno: Errno) -> Failure {
        Failure(.systemRefused, "cannot start /bin/sh: \(errno.spoken)")
    }
}
