import CMemoryFiles
import DataProtection
import Glibc

/// Where plaintext may lie for a while: in memory, never on a disk.
enum MemoryStorage {
    /// The user's own directory in memory, else everybody's.
    private static var candidates: [FilePath] {
        let runtime = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) } ?? ""
        return (runtime.hasPrefix("/") ? [FilePath(runtime)] : []) + ["/dev/shm"]
    }

    /// The candidates that are in memory (tmpfs or ramfs) and in which nobody can exchange what is ours.
    static var directories: [LowerDirectory] { candidates.compactMap(opened) }

    /// The first of them.
    ///
    /// - Throws: status 69.
    static func directory() throws(Failure) -> LowerDirectory {
        for candidate in candidates { if let directory = opened(candidate) { return directory } }
        throw Failure(
            .unavailable, "there is no directory in memory for the plain copy",
            hint: "set XDG_RUNTIME_DIR to a directory of yours on a tmpfs, or mount one on /dev/shm")
    }

    /// Nil if somebody else can rename there: the owner, if that is not root, or others who may write to it.
    private static func opened(_ path: FilePath) -> LowerDirectory? {
        guard let directory = try? LowerDirectory(path), let status = try? directory.status(),
            protectfs_is_in_memory(directory.descriptor) == 1
        else { return nil }
        let isPrivate = status.st_mode & 0o022 == 0
        let isOwn = status.st_uid == geteuid() && isPrivate
        let isRoots = status.st_uid == 0 && (isPrivate || status.st_mode & S_ISVTX != 0)
        return isOwn || isRoots ? directory : nil
    }

    /// Refuses what would take more than a quarter of the memory that is free, or of `directory`.
    ///
    /// - Throws: status 71.
    static func requireRoom(for bytes: Int64, of path: FilePath, in directory: FilePath? = nil) throws(Failure) {
        var room = availableMemory ?? .max
        var status = statvfs()
        // ramfs says that it has no blocks at all.
        if let directory, directory.withPlatformString({ statvfs($0, &status) }) == 0, status.f_blocks > 0 {
            room = min(room, Int64(clamping: byteCount(ofBlocks: UInt64(status.f_bavail), of: UInt64(status.f_frsize))))
        }
        guard bytes > room / 4 else { return }
        throw Failure(
            .systemRefused, "\(quoted(path)) is too large to be held in memory: \(bytes) bytes, and \(room) are free",
            hint: "read it piece by piece: protectfs cat --range 0-1048575 \(quoted(path))")
    }

    /// `MemAvailable` of /proc/meminfo (proc_meminfo(5)), in bytes.
    private static var availableMemory: Int64? {
        guard case .known(let text) = KernelFile.text(of: "/proc/meminfo") else { return nil }
        for line in text.split(separator: "\n") where line.hasPrefix("MemAvailable:") {
            return line.split(separator: " ").dropFirst().first.flatMap { Int64($0) }.map { $0 * 1024 }
        }
        return nil
    }

    /// What is in a tmpfs may be swapped out: says so where that would write it to a disk in the clear.
    static func warnOfSwap() {
        guard case .known(let swaps) = Swap.read(), let swap = swaps.first(where: { !$0.isSafe }) else { return }
        StandardError.line(.warning, "memory may be swapped to \(quoted(swap.name)), which is not encrypted")
        StandardError.line(.hint, "turn it off while you edit: swapoff \(quoted(swap.name))")
    }
}
