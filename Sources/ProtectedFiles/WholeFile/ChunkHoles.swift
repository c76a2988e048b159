import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import SystemPackage

extension ChunkRuns {
    /// How many chunks are in the set.
    package var chunkCount: UInt64 { runs.reduce(0) { $0 + ($1.upperBound - $1.lowerBound) } }
}

extension LowerFile {
    /// Whole chunks of `layout` that take no place on disk, ascending: lseek(2), SEEK_HOLE. Of many the largest, since a
    /// content record has room for 32 runs.
    package func holes(size: UInt64, of layout: ChunkLayout) throws(DataProtectionError) -> [Range<UInt64>] {
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
}
