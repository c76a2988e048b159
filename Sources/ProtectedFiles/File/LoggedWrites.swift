import DurableFiles
import Keybags
import ProtectionFormat

/// What a writer logs.
package enum WriteLogEntry: Sendable {
    /// What another process needs to commit a change: ``LoggedWrites``.
    case change([UInt8])
    /// Nothing waits for a commit any more: it was made, or given up.
    case committed
    /// The same, because something failed.
    case lost
}

/// What a writer has sealed and not committed, as another process of the same machine commits it when the writer is dead. There is no plaintext in it.
///
/// A writer logs each change: all that waits for the commit, or, on the same state, only the chunks that were sealed since. Numbers are as the processor
/// stores them, in 8 bytes each.
package struct LoggedWrites {
    /// The committed state that the writes are based on.
    struct Base: Hashable {
        let counter: UInt64
        let redoOffset: UInt64
        let epoch: UInt64

        init(_ state: FileState) {
            (counter, redoOffset, epoch) = (state.record.counter, state.redoOffset, state.epoch)
        }

        fileprivate init(_ counter: UInt64, _ redoOffset: UInt64, _ epoch: UInt64) {
            (self.counter, self.redoOffset, self.epoch) = (counter, redoOffset, epoch)
        }
    }

    private var last: Logged?
    private var chunks: [UInt64: Chunk] = [:]

    private struct Chunk {
        let isFresh: Bool
        let sealed: [UInt8]
    }

    /// One change.
    private struct Logged {
        let base: Base
        let size: UInt64
        let form: UInt64
        let holes: [Range<UInt64>]
        let atHome: [Range<UInt64>]
        let opening: [UInt8]
        let final: [UInt8]
        let inline: [UInt8]
    }

    /// - Parameter changes: of one writer, in their order.
    /// - Returns: nil if they are none.
    package init?(_ changes: [UnsafeRawBufferPointer]) {
        for change in changes { guard take(change) else { return nil } }
        if last == nil { return nil }
    }

    // MARK: encoding

    private static let (committedInline, inline, chunked) = (UInt64(0), UInt64(1), UInt64(2))
    private static let fieldCount = 12

    /// - Parameter chunks: those that were sealed since the change before; nil: all of them, whatever was logged.
    static func encode(
        _ uncommitted: Writer.Uncommitted, on base: Base, chunks: Set<UInt64>?
    ) -> [UInt8] {
        let writes = uncommitted.writes
        let (overwrites, fresh) = (writes.overwrites.chunks, writes.fresh.chunks)
        // Thousands can wait, of which a change has sealed one.
        let sealed = (chunks ?? Set(overwrites.keys).union(fresh.keys)).compactMap { index in
            overwrites[index].map { (index: index, isFresh: false, sealed: $0) }
                ?? fresh[index].map { (index: index, isFresh: true, sealed: $0) }
        }
        var (form, inline) = (Self.chunked, [UInt8]())
        switch writes.form {
        case .committedInline: form = committedInline
        case .inline(let bytes): (form, inline) = (Self.inline, bytes)
        case .chunked: break
        }
        let entry = Logged(
            base: base, size: writes.size, form: form, holes: writes.holes.runs, atHome: writes.atHome.runs,
            opening: uncommitted.records.opening?.bytes ?? [], final: uncommitted.records.final.bytes, inline: inline)
        return encode(entry, isWhole: chunks == nil, sealed)
    }

    /// All of it as one change.
    package var merged: [UInt8] {
        guard let last else { return [] }
        return Self.encode(last, isWhole: true, chunks.map { ($0.key, $0.value.isFresh, $0.value.sealed) })
    }

    private static func encode(
        _ entry: Logged, isWhole: Bool, _ chunks: [(index: UInt64, isFresh: Bool, sealed: [UInt8])]
    ) -> [UInt8] {
        var words = [
            isWhole ? 1 : 0, entry.base.counter, entry.base.redoOffset, entry.base.epoch, entry.size, entry.form,
            UInt64(entry.holes.count), UInt64(entry.atHome.count), UInt64(chunks.count),
            UInt64(entry.opening.count), UInt64(entry.final.count), UInt64(entry.inline.count),
        ]
        for run in entry.holes + entry.atHome { words += [run.lowerBound, run.upperBound] }
        for chunk in chunks { words += [chunk.index, chunk.isFresh ? 1 : 0, UInt64(chunk.sealed.count)] }
        var bytes = words.withUnsafeBytes { Array($0) }
        bytes += entry.opening + entry.final + entry.inline
        for chunk in chunks { bytes += chunk.sealed }
        return bytes
    }

    // MARK: decoding

    private mutating func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var reader = Reader(bytes: bytes)
        guard let words = reader.words(Self.fieldCount) else { return false }
        let counts = words[6...11].map { Int(clamping: $0) }
        guard let holes = reader.runs(counts[0]), let atHome = reader.runs(counts[1]),
            let places = reader.words(3 * min(counts[2], bytes.count)),
            let opening = reader.bytes(counts[3]), let final = reader.bytes(counts[4]),
            let inline = reader.bytes(counts[5])
        else { return false }
        if words[0] == 1 { chunks = [:] } else if last == nil { return false }
        for start in stride(from: 0, to: places.count, by: 3) {
            guard let sealed = reader.bytes(Int(clamping: places[start + 2])) else { return false }
            chunks[places[start]] = Chunk(isFresh: places[start + 1] == 1, sealed: sealed)
        }
        for run in atHome { for index in chunks.keys where run.contains(index) { chunks[index] = nil } }
        last = Logged(
            base: Base(words[1], words[2], words[3]), size: words[4], form: words[5], holes: holes, atHome: atHome,
            opening: opening, final: final, inline: inline)
        return true
    }

    private struct Reader {
        let bytes: UnsafeRawBufferPointer
        var place = 0

        mutating func bytes(_ count: Int) -> [UInt8]? {
            guard count >= 0, count <= bytes.count - place else { return nil }
            defer { place += count }
            return Array(bytes[place..<place + count])
        }

        mutating func words(_ count: Int) -> [UInt64]? {
            guard count >= 0, count <= (bytes.count - place) / 8 else { return nil }
            defer { place += 8 * count }
            return (0..<count).map { bytes.loadUnaligned(fromByteOffset: place + 8 * $0, as: UInt64.self) }
        }

        mutating func runs(_ count: Int) -> [Range<UInt64>]? {
            guard count <= bytes.count, let words = words(2 * count) else { return nil }
            return (0..<count).map { words[2 * $0]..<max(words[2 * $0], words[2 * $0 + 1]) }
        }
    }

    // MARK: committing

    /// What can be said of a file in which they were to be committed.
    enum Standing {
        /// They are in it already.
        case committed
        /// They wait for this commit.
        case waiting(Writer.Uncommitted)
        /// The file is in another state.
        case impossible
    }

    /// - Parameter keys: with the head key.
    func standing(on state: FileState, _ keys: FileKeys) throws(DataProtectionError) -> Standing {
        guard let last else { return .impossible }
        let prefix = state.heads.head.prefix
        let (opening, final): (SealedContent?, SealedContent)
        do throws(FormatError) {
            opening = last.opening.isEmpty ? nil : try SealedContent(decoding: last.opening, layout: state.layout)
            final = try SealedContent(decoding: last.final, layout: state.layout)
            let head = keys.head()
            for content in [opening, final] { try content?.authenticate(in: prefix, under: head.bytes) }
        } catch { return .impossible }
        if state.content == final { return .committed }
        let now = Base(state)
        if now == last.base { return .waiting(uncommitted(on: state, opening, final)) }
        // Only the area was opened.
        guard let opening, !state.hasRecords, state.heads.head.content == opening else { return .impossible }
        return .waiting(uncommitted(on: state, nil, final))
    }

    private func uncommitted(
        on state: FileState, _ opening: SealedContent?, _ final: SealedContent
    ) -> Writer.Uncommitted {
        var writes = PendingWrites(on: state.record)
        for (index, chunk) in chunks { writes.put(chunk.sealed, at: index, isFresh: chunk.isFresh) }
        for run in last?.atHome ?? [] { writes.putAtHome(run) }
        writes.size = last?.size ?? 0
        writes.form =
            switch last?.form {
            case Self.committedInline: .committedInline
            case Self.inline: .inline(last?.inline ?? [])
            default: .chunked
            }
        writes.holes = ChunkRuns(runs: last?.holes ?? []) ?? ChunkRuns()
        return Writer.Uncommitted(writes: writes, records: PreparedCommit(opening: opening, final: final))
    }
}
