import DurableFiles
import Glibc
import Keybags
public import SystemPackage

/// What was saved of a damaged file.
public struct SalvageResult: Hashable, Sendable {
    /// The plaintext file that was made.
    public let target: FilePath
    /// Plaintext bytes, counted from 0, that do not open, ascending. They are holes in the new file, and read as zeros.
    public let missing: [Range<Int64>]
}

extension Keybag {
    /// Saves every chunk that still opens of a protected file as plaintext in a new file beside it. The protected file stays as it is.
    ///
    /// The new file has the first free name of `NAME.salvaged-1`, `-2` …, mode 0600, and appears as a whole.
    /// - Parameters:
    ///   - path: the file; a link is followed.
    ///   - progress: called with the number of bytes done.
    /// - Throws: `damaged` if nothing opens, or if what all chunks depend on is damaged; `locked`, `notProtected`, `mangled`, `busy` while
    ///   somebody writes to it, `system`. No file is made then.
    public func salvage(
        _ path: FilePath, progress: (Int64) -> Void = { _ in }
    ) throws(DataProtectionError) -> SalvageResult {
        let file = try LowerFile(regular: path, flags: O_RDONLY)
        try file.requireOneOfOurs()
        guard try file.tryByteLock(OpenFile.writerLock, .shared) else { throw .busy(path) }
        let open = OpenFile(file, keybag: self, isWritable: false)
        let state = try open.state(.open)
        let size = state.record.size
        let new = try UnnamedFile(path.resolved())
        let buffer = WipedBuffer(piecesOf: size)
        var missing: [Range<Int64>] = []
        var (done, end) = (UInt64(0), size)
        while done < size {
            if let hole = state.hole(at: done) {
                done = hole.upperBound
                continue
            }
            do throws(DataProtectionError) {
                let room = min(end - done, state.bytesToNextHole(from: done), UInt64(buffer.count))
                let part = buffer.prefix(Int(room))
                let count = try open.read(into: part, at: done)
                guard count > 0 else { throw .busy(path) }
                try new.file.write(UnsafeRawBufferPointer(rebasing: part[..<count]), at: done)
                done += UInt64(count)
            } catch {
                guard case .damaged(_, .chunk, _, let offset?) = error, UInt64(offset) >= done else { throw error }
                // What lies before it is read once more.
                end = UInt64(offset)
                let next = min(end + UInt64(state.layout.chunkSize), size)
                missing.add(Int64(end)..<Int64(next))
                if missing.count == 1, missing[0] == 0..<Int64(size) { throw error }
                if end == done { (done, end) = (next, size) }
            }
            if done == end, end < size, let last = missing.last { (done, end) = (UInt64(last.upperBound), size) }
            progress(Int64(done))
        }
        try new.file.truncate(to: size)
        return SalvageResult(target: try new.publish(beside: "salvaged"), missing: missing)
    }
}

extension [Range<Int64>] {
    /// Adds a range behind the last one; two that touch become one.
    fileprivate mutating func add(_ range: Range<Int64>) {
        guard let before = last, before.upperBound == range.lowerBound else { return append(range) }
        self[count - 1] = before.lowerBound..<range.upperBound
    }
}
