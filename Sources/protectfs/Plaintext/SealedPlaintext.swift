import CMemoryFiles
import DataProtection
import Glibc

/// The plaintext of a file in memory, which nobody can change any more: memfd_create(2) with every seal.
struct SealedPlaintext: ~Copyable {
    /// Open for reading only, at the beginning; closed on exec.
    private let descriptor: Int32

    /// Decrypts all of `path`.
    ///
    /// - Parameters:
    ///   - floor: the descriptor's number is this or a higher one.
    ///   - holders: notes the file, if a lock is meant to shut it, before there is any plaintext.
    init(_ path: FilePath, _ keybags: Keybags, floor: Int32, notedBy holders: PlaintextHolders) throws {
        let memory = protectfs_memory_file()
        guard memory >= 0 else { throw Self.failure(path) }
        defer { close(memory) }
        let file = try keybags.reading(path) { keybag throws(DataProtectionError) in
            let file = try ProtectedFile.open(path, keybag: keybag)
            if try file.openedClass().isShutByLock { try holders.add(path, of: keybag) }
            return file
        }
        try MemoryStorage.requireRoom(for: try file.size(), of: path)
        try Self.copy(file, to: memory)
        try file.warnOfFindings(path)
        try file.close()
        // Mode 0400, so that nobody opens it once more for writing.
        guard fchmod(memory, 0o400) == 0, protectfs_seal_memory_file(memory) == 0 else { throw Self.failure(path) }
        let reader = open("/proc/self/fd/\(memory)", O_RDONLY | O_CLOEXEC)
        guard reader >= 0 else { throw Self.failure(path) }
        defer { close(reader) }
        let high = fcntl(reader, F_DUPFD_CLOEXEC, floor)
        guard high >= 0 else { throw Self.failure(path) }
        descriptor = high
    }

    deinit { close(descriptor) }

    /// To be called before `place`. The thread that waits for locks opens and closes files of its own, under the lowest numbers that
    /// are free: without this it closes, or reads from, what has been placed there meanwhile.
    static func ownDescriptors() throws(Failure) {
        guard protectfs_own_descriptors() == 0 else {
            throw Failure(.systemRefused, "descriptors of the command's own (unshare): \(Errno.current.spoken)")
        }
    }

    /// Puts it at `number`, for the program that this process is about to become. A descriptor that was there is closed.
    func place(at number: Int32) throws(Failure) {
        guard dup2(descriptor, number) == number else {
            throw Failure(.systemRefused, "descriptor \(number): \(Errno.current.spoken)")
        }
    }

    private static func copy(_ file: ProtectedFile, to memory: Int32) throws(DataProtectionError) {
        var end: off_t = 0
        try Pieces.forEach(of: file.pieces) { piece throws(DataProtectionError) in
            var done = 0
            while done < piece.count {
                // No memory left is an error here, not a signal later.
                let count = pwrite(memory, piece.baseAddress! + done, piece.count - done, end)
                guard count >= 0 || errno == EINTR else {
                    throw .system(file.path, operation: "pwrite to memory", Errno.current)
                }
                done += max(count, 0)
                end += off_t(max(count, 0))
            }
        }
    }

    private static func failure(_ path: FilePath) -> Failure {
        Failure(.systemRefused, "\(quoted(path)) cannot be held in memory: \(Errno.current.spoken)")
    }
}
