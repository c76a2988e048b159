package import Glibc
import SystemPackage

/// Bytes that this user can still write on the file system of an open file; nil if it does not say.
package func roomOnFileSystem(of descriptor: Int32) -> UInt64? {
    var space = statvfs()
    guard fstatvfs(descriptor, &space) == 0 else { return nil }
    return space.room
}

extension statvfs {
    /// The bytes that an ordinary user can still write. A file system can report any numbers, so the product may not fit.
    package var room: UInt64 {
        let (bytes, overflow) = UInt64(f_bavail).multipliedReportingOverflow(by: UInt64(f_frsize))
        return overflow ? .max : bytes
    }
}

extension LowerFile {

    /// The first bytes in `range` that take place on disk; nil if all of it is a hole, or is behind the end of the file.
    ///
    /// All of `range` on a file system that does not say. lseek(2), SEEK_DATA and SEEK_HOLE.
    package func nextData(in range: Range<UInt64>) throws(DataProtectionError) -> Range<UInt64>? {
        do throws(DataProtectionError) {
            let data = try retrying(path, "lseek") { lseek(descriptor, off_t(range.lowerBound), Self.seekData) }
            guard data < range.upperBound else { return nil }
            let hole = lseek(descriptor, data, Self.seekHole)
            // Somebody may have cut the file, or made a hole, in between.
            return UInt64(data)..<(hole > data ? min(UInt64(hole), range.upperBound) : range.upperBound)
        } catch .system(_, _, .noSuchAddressOrDevice) {
            return nil
        } catch .system(_, _, .invalidArgument) {
            return range
        }
    }

    // Of unistd.h, behind _GNU_SOURCE.
    package static let seekData: Int32 = 3
    package static let seekHole: Int32 = 4
}
