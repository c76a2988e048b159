import Glibc
import ProtectionFormat
import SystemPackage

/// Bytes that this user can still write on the file system of an open file; nil if it does not say.
func roomOnFileSystem(of descriptor: Int32) -> UInt64? {
    var space = statvfs()
    guard fstatvfs(descriptor, &space) == 0 else { return nil }
    return UInt64(space.f_bavail) * UInt64(space.f_frsize)
}

extension ChunkRuns {
    /// How many chunks are in the set.
    var chunkCount: UInt64 { runs.reduce(0) { $0 + ($1.upperBound - $1.lowerBound) } }
}

extension LowerFile {
    /// Whole chunks of `layout` that take no place on disk, ascending: lseek(2), SEEK_HOLE. Of many the largest, since a
    /// content record has room for 32 runs.
    func holes(size: UInt64, of layout: ChunkLayout) throws(DataProtectionError) -> [Range<UInt64>] {
        let chunk = UInt64(layout.chunkSize)
        var found: [Range<UInt64>] = []
        var offset: UInt64 = 0
        while offset < size {
            let hole = lseek(descriptor, off_t(offset), Self.seekHole)
            guard hole >= 0 else { break }  // none, or a file system that does not say
            let data = lseek(descriptor, hole, Self.seekData)
            offset = data < 0 ? size : UInt64(data)
            let first = (UInt64(hole) + chunk - 1) / chunk * chunk
            let end = min(offset, size) / chunk * chunk
            guard first < end else { continue }
            found.append(first..<end)
            if found.count > ChunkRuns.maximumRuns,
                let shortest = found.indices.min(by: { found[$0].count < found[$1].count })
            {
                found.remove(at: shortest)
            }
        }
        return found
    }

    /// The first bytes in `range` that take place on disk; nil if all of it is a hole, or is behind the end of the file.
    ///
    /// All of `range` on a file system that does not say. lseek(2), SEEK_DATA and SEEK_HOLE.
    func nextData(in range: Range<UInt64>) throws(DataProtectionError) -> Range<UInt64>? {
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
    private static let seekData: Int32 = 3
    private static let seekHole: Int32 = 4
}
