import DurableFiles
import ProtectionFormat

extension FileState {
    /// Writes the last version of every recorded chunk that still counts to its home; not flushed.
    ///
    /// - Returns: how many there were.
    @discardableResult
    package func putInPlace(in file: LowerFile) throws(DataProtectionError) -> Int {
        var count = 0
        for (index, place) in overlay.sorted(by: { $0.key < $1.key })
        where index < record.chunkCount && !record.holes.contains(index) {
            let sealed = try file.bytes(at: place.offset, count: place.length)
            guard sealed.count == place.length else {
                throw .damaged(file.path, .redoRecord, reason: "ends early", offset: nil)
            }
            try file.write(sealed, at: layout.home(index))
            count += 1
        }
        return count
    }
}
