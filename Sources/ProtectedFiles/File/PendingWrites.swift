import DurableFiles
import Keybags
import ProtectionFormat

/// Writes that no commit has acknowledged: sealed, in memory or at home where nothing committed depends on the bytes.
package struct PendingWrites {
    /// Where the file to come lies.
    package enum Form: Hashable {
        /// In the head, as it is committed.
        case committedInline
        /// In the head, sealed for the next content counter.
        case inline([UInt8])
        /// In chunks.
        case chunked
    }

    /// Sealed chunks in memory.
    package struct Sealed {
        package private(set) var chunks: [UInt64: [UInt8]] = [:]
        /// Their bytes.
        package private(set) var byteCount = 0

        package var ascending: [(index: UInt64, sealed: [UInt8])] {
            chunks.sorted { $0.key < $1.key }.map { (index: $0.key, sealed: $0.value) }
        }

        /// Where the last of them ends when all are at home, in bytes of the stored file; 0 if there are none.
        package func end(in layout: ChunkLayout) -> UInt64 {
            guard let last = chunks.max(by: { $0.key < $1.key }) else { return 0 }
            return layout.home(last.key) + UInt64(last.value.count)
        }

        package mutating func put(_ sealed: [UInt8], at index: UInt64) {
            byteCount += sealed.count - (chunks.updateValue(sealed, forKey: index)?.count ?? 0)
        }

        package mutating func remove(_ index: UInt64) { byteCount -= chunks.removeValue(forKey: index)?.count ?? 0 }

        package mutating func cut(toCount count: UInt64) {
            for index in chunks.keys where index >= count { remove(index) }
        }
    }

    /// The size to come, in bytes.
    package var size: UInt64
    /// Where the bytes to come lie.
    package var form: Form
    /// The holes to come.
    package var holes: ChunkRuns
    /// Chunks that take the place of committed ones.
    package private(set) var overwrites = Sealed()
    /// Chunks where nothing committed is, still in memory.
    package private(set) var fresh = Sealed()
    /// Chunks where nothing committed is, written at home already.
    package private(set) var atHome = ChunkRuns()
    /// Chunks that were sealed since the last ``LoggedWrites``; nil: others were forgotten.
    private(set) var unlogged: Set<UInt64>? = []

    package init(on record: ContentRecord) {
        size = record.size
        form = record.isInline ? .committedInline : .chunked
        holes = record.holes
    }

    /// Whether there is anything to commit.
    package func differs(from record: ContentRecord) -> Bool {
        if case .inline = form { return true }
        let hasChunks = !overwrites.chunks.isEmpty || !fresh.chunks.isEmpty || !atHome.runs.isEmpty
        return hasChunks || size != record.size || holes != record.holes || (form == .chunked) == record.isInline
    }

    /// The sealed chunk that waits in memory.
    package func sealed(_ index: UInt64) -> [UInt8]? { overwrites.chunks[index] ?? fresh.chunks[index] }

    /// Where the last of the chunks ends that are at home already, in bytes of the stored file; 0 if there are none.
    package func endAtHome(in layout: ChunkLayout) -> UInt64 {
        guard let last = atHome.runs.last?.last else { return 0 }
        return layout.home(last) + UInt64(layout.plainLength(last, size: size) + ChunkLayout.overhead)
    }

    /// Notes a sealed chunk.
    package mutating func put(_ sealed: [UInt8], at index: UInt64, isFresh: Bool) {
        // Emptying the area turns overwrites into fresh chunks: there must be one version of each.
        fresh.remove(index)
        overwrites.remove(index)
        #if PROTECTFS_CONTROLS
            let isFresh = isFresh || Omission.current == .redo
        #endif
        if isFresh { fresh.put(sealed, at: index) } else { overwrites.put(sealed, at: index) }
        atHome.remove(index..<index + 1)
        holes.remove(index..<index + 1)
        unlogged?.insert(index)
    }

    /// All of it is logged.
    mutating func noteLogged() { unlogged = [] }

    /// Notes sealed fresh chunks that were just written at home.
    package mutating func putAtHome(_ indexes: Range<UInt64>) {
        if !fresh.chunks.isEmpty { for index in indexes { fresh.remove(index) } }
        if !overwrites.chunks.isEmpty { for index in indexes { overwrites.remove(index) } }
        atHome.insert(indexes)
        holes.remove(indexes)
    }

    /// Writes the fresh chunks in memory to their homes, the last one first; not flushed. The writer has reached their end.
    package mutating func putFreshHome(in file: LowerFile, _ layout: ChunkLayout) throws(DataProtectionError) {
        let chunks = fresh.ascending
        for chunk in chunks.suffix(1) + chunks.dropLast() {
            try file.write(chunk.sealed, at: layout.home(chunk.index))
            putAtHome(chunk.index..<chunk.index + 1)
        }
    }

    /// Forgets everything from chunk `count` on.
    package mutating func cut(toCount count: UInt64) {
        unlogged = nil
        overwrites.cut(toCount: count)
        fresh.cut(toCount: count)
        atHome.remove(count..<UInt64.max)
        holes.remove(count..<UInt64.max)
    }
}
