import Glibc
import SystemPackage

/// Bytes that this user can still write on the file system of an open file; nil if it does not say, as ramfs: it has no blocks.
package func roomOnFileSystem(of descriptor: Int32) -> UInt64? {
    var space = statvfs()
    guard fstatvfs(descriptor, &space) == 0, space.f_blocks > 0 else { return nil }
    return byteCount(ofBlocks: UInt64(space.f_bavail), of: UInt64(space.f_frsize))
}

/// The bytes of `count` blocks. A file system can report any numbers: what does not fit is the highest number.
package func byteCount(ofBlocks count: UInt64, of size: UInt64) -> UInt64 {
    let (bytes, overflow) = count.multipliedReportingOverflow(by: size)
    return overflow ? .max : bytes
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
