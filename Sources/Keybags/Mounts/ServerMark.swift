import DurableFiles
import Glibc
import SystemPackage

/// How the server of a mount says that it lives, whatever becomes of its note: a lock on a byte of `transition`, which is in no `run` and needs no
/// room. FORMAT.md §2.13.
final class ServerMark: Sendable {
    private let file: LowerFile

    /// The byte of process 0, behind everything that the file holds.
    private static let first: off_t = 1 << 41
    /// No process has a higher number (`kernel.pid_max`).
    private static let count: off_t = 1 << 22

    /// Marks this process; nil where the file cannot be locked.
    init?(ofKeybag keybag: FilePath) {
        guard let file = Self.file(keybag), (try? file.tryByteLock(Self.first + off_t(getpid()), .shared)) == true
        else { return nil }
        self.file = file
    }

    /// The processes that have marked themselves, as they are numbered where they run; 1,000 at most, because a lock must not be held up by whoever
    /// marks every number.
    static func servers(ofKeybag keybag: FilePath) -> Set<Int32> {
        let bytes = (try? file(keybag)?.bytesLockedElsewhere(in: first..<first + count, atMost: 1000)) ?? []
        return Set(bytes.map { Int32($0 - first) })
    }

    private static func file(_ keybag: FilePath) -> LowerFile? {
        try? LowerFile(keybag.appending(TransitionFile.name), flags: O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    }
}
