import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
import SystemPackage

extension NewFile {
    /// Appends what `read` gives, from the beginning to the end. Holes take no room, and no time to read.
    ///
    /// - Parameters:
    ///   - size: about how many bytes there are.
    ///   - holes: plaintext bytes, ascending; each is one for ``append(hole:)``.
    ///   - read: gives the plaintext bytes at an offset; 0 at the end.
    ///   - goOn: called with the number of bytes done, after each piece, of at most 1 MiB, and each hole; whether to go on.
    /// - Returns: how many bytes there were; nil if it was to stop.
    package func append(
        expecting size: UInt64, leavingOut holes: [Range<UInt64>],
        reading read: (UnsafeMutableRawBufferPointer, UInt64) throws(DataProtectionError) -> Int,
        goOn: (UInt64) throws(DataProtectionError) -> Bool
    ) throws(DataProtectionError) -> UInt64? {
        var holes = holes[...]
        let buffer = WipedBuffer(piecesOf: size)
        var done: UInt64 = 0
        while true {
            if let hole = holes.first, hole.lowerBound == done {
                try append(hole: hole)
                holes.removeFirst()
                done = hole.upperBound
            } else {
                let room = min(UInt64(buffer.count), (holes.first?.lowerBound ?? .max) - done)
                let count = try read(buffer.prefix(Int(room)), done)
                if count == 0 { return done }
                try append(UnsafeRawBufferPointer(buffer.prefix(count)))
                done += UInt64(count)
            }
            guard try goOn(done) else { return nil }
        }
    }
}

extension FileState {
    /// The plaintext bytes that take no room, as whole chunks of a file with another layout: each is one for ``NewFile/append(hole:)``.
    package func holes(of layout: ChunkLayout) -> [Range<UInt64>] {
        let (own, chunk) = (UInt64(self.layout.chunkSize), UInt64(layout.chunkSize))
        return record.holes.runs.compactMap { run in
            let first = (run.lowerBound * own + chunk - 1) / chunk * chunk
            let upper = run.upperBound * own
            let end = upper < record.size ? upper / chunk * chunk : record.size
            return first < end ? first..<end : nil
        }
    }
}

extension LowerDirectory {
    /// Requires room for a protected copy of a file, before anything is written. The original stays meanwhile.
    ///
    /// - Parameters:
    ///   - size: plaintext bytes.
    ///   - holes: those that the copy keeps.
    /// - Throws: `tooSparse` about the original if there is no room because more holes cannot be kept; else `system` with ENOSPC.
    package func requireRoom(
        for size: UInt64, in layout: ChunkLayout, leavingOut holes: [Range<UInt64>], of original: LowerFile,
        copy path: FilePath
    ) throws(DataProtectionError) {
        let inHoles = holes.reduce(0) { $0 + layout.chunkCount(size: $1.upperBound - $1.lowerBound) }
        let needed = layout.home(layout.chunkCount(size: size) - inHoles)
        do throws(DataProtectionError) { try requireRoom(for: needed, path) } catch {
            let stored = UInt64(try original.status().st_blocks) * 512
            guard holes.count == ChunkRuns.maximumRuns, needed / 2 > stored else { throw error }
            throw .because(FileFailure.tooSparse(original.path, stored: stored, needed: needed))
        }
    }

    /// - Parameter needed: in bytes.
    /// - Throws: `system` with ENOSPC, before anything is written.
    package func requireRoom(for needed: UInt64, _ path: FilePath) throws(DataProtectionError) {
        // Where the file system does not say, the write says it.
        guard let room = roomOnFileSystem(of: descriptor), room < needed else { return }
        throw .system(path, operation: "write", .noSpace)
    }
}
