import CMemoryFiles
import DurableFiles
import Glibc
import Synchronization
import SystemPackage

/// Memory for sealed pages that no disk takes: of all mounts of this process together at most 64 MiB.
enum MemoryForPages {
    /// In bytes.
    static let limit = 64 << 20
    private static let taken = Atomic(0)

    /// - Throws: `error`, where there is no room.
    static func take(_ count: Int, insteadOf error: DataProtectionError) throws(DataProtectionError) {
        let all = taken.add(count, ordering: .relaxed).newValue
        guard all <= limit else {
            giveBack(count)
            throw error
        }
    }

    static func giveBack(_ count: Int) { taken.subtract(count, ordering: .relaxed) }

    /// A file in memory: memfd_create(2).
    ///
    /// - Throws: `error`, where there is no room.
    static func file(
        with bytes: [UInt8], insteadOf error: DataProtectionError
    ) throws(DataProtectionError) -> LowerFile {
        guard case .system(let path, _, _) = error else { throw error }
        try take(bytes.count, insteadOf: error)
        let descriptor = protectfs_memory_file()
        guard descriptor >= 0 else {
            giveBack(bytes.count)
            throw error
        }
        let file = LowerFile(path: path, descriptor: descriptor)
        do throws(DataProtectionError) { try file.write(bytes, at: 0) } catch {
            giveBack(bytes.count)
            throw error
        }
        return file
    }
}
