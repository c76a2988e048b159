import DurableFiles
import Glibc
import SystemPackage

/// How the server of a mount shows that it is alive even if its note is gone: a lock on a byte of `transition`, which is in no `run` and needs no
/// space. FORMAT.md §2.13.
///
/// There is none where ``TransitionFile/forLongLocks(ofKeybag:)`` gives no file.
final class ServerMark: Sendable {
    private let file: LowerFile

    /// The byte of process 0, behind everything that the file holds.
    private static let first: off_t = 1 << 41
    /// No process has a higher number (`kernel.pid_max`).
    private static let count: off_t = 1 << 22

    /// Marks this process; nil where the file cannot be locked.
    init?(ofKeybag keybag: FilePath) {
        guard let file = TransitionFile.forLongLocks(ofKeybag: keybag),
            (try? file.tryByteLock(Self.first + off_t(getpid()), .shared)) == true
        else { return nil }
        self.file = file
    }

    /// The marked processes, by their numbers in their own PID namespace; 1,000 at most, so that a process that marks every number cannot hold up a
    /// lock.
    static func servers(ofKeybag keybag: FilePath) -> Set<Int32> {
        let file = TransitionFile.forLongLocks(ofKeybag: keybag)
        let bytes = (try? file?.bytesLockedElsewhere(in: first..<first + count, atMost: 1000)) ?? []
        return Set(bytes.map { Int32($0 - first) })
    }
}
