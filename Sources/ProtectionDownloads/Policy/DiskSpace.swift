import DataProtection
import Glibc

/// Whether there is room for a download, asked before it begins. It can still run out: others write too.
enum DiskSpace {
    /// - Parameter bytes: of plaintext, still to come.
    /// - Returns: nil if there is room, or nobody says.
    static func failure(for bytes: UInt64, in directory: FilePath) -> DownloadFailure? {
        var status = statvfs()
        guard directory.withPlatformString({ statvfs($0, &status) }) == 0, status.f_blocks > 0 else { return nil }
        let available = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        // 28 bytes for each 64 KiB, and two heads. FORMAT.md §3.
        let needed = bytes.addingReportingOverflow(bytes / 65_536 * 28 + 16_384)
        guard !available.overflow, needed.overflow || needed.partialValue > available.partialValue else { return nil }
        return DownloadFailure(.disk, "\(bytes) bytes are to come, and there is room for \(available.partialValue)")
    }
}
