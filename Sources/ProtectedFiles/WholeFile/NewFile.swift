import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// A protected file that is written from beginning to end and appears whole or not at all. FORMAT.md §4 rule 14.
///
/// It has no name before ``publish(replacing:)``. What was appended is sealed when ``append(_:)`` returns, so that a class A
/// file whose key goes meanwhile can still be finished, but not continued.
package final class NewFile {
    package let keybag: Keybag
    package var path: FilePath { unnamed.entry.path }
    package let unnamed: UnnamedFile
    private let behind: WriteBehind
    private let memory = SealedMemory()
    package var file: LowerFile { unnamed.file }
    package var fileID: FileID { head.prefix.fileID }
    package var protectionClass: ProtectionClass { head.wrap.classKey.protectionClass }
    package private(set) var keys: HandleKeys
    /// The head to be written: its wrap record is final, its content is that of everything appended so far.
    var head: Head
    private var sealCount: UInt64 = 2
    /// The last, partial chunk, sealed.
    private var tail: [UInt8]?
    private var size: UInt64 = 0
    private var holes = ChunkRuns()
    /// The error after which the file is neither continued nor finished: something was appended by half.
    private var failure: Errno?

    private var layout: ChunkLayout { head.prefix.layout }
    private var sealedChunks: UInt64 { size / UInt64(layout.chunkSize) }

    /// Makes the file in the directory of `entry`.
    ///
    /// - Throws: `locked` when the class key is not here; nothing is left behind.
    package convenience init(
        _ entry: DirectoryEntry, as protectionClass: ProtectionClass, layout: ChunkLayout, keybag: Keybag,
        carrying verdict: OriginMark.Verdict? = nil
    ) throws(DataProtectionError) {
        var new = try NewHead(as: protectionClass, layout: layout, keybag, carrying: verdict, path: entry.path)
        new.firstKeys = nil
        try self.init(entry, new.head, new.keys)
    }

    /// Makes the file of a ``NewHead``.
    package init(_ entry: DirectoryEntry, _ head: Head, _ keys: HandleKeys) throws(DataProtectionError) {
        keybag = keys.keybag
        self.head = head
        self.keys = keys
        unnamed = try UnnamedFile(entry)
        try unnamed.takeUsualMode()
        behind = WriteBehind(unnamed.file)
    }

    /// The same by a path.
    package convenience init(
        _ path: FilePath, as protectionClass: ProtectionClass, layout: ChunkLayout, keybag: Keybag,
        carrying verdict: OriginMark.Verdict? = nil
    ) throws(DataProtectionError) {
        try self.init(
            DirectoryEntry(path), as: protectionClass, layout: layout, keybag: keybag, carrying: verdict)
    }

    /// Appends bytes; class A asks the ring for each MiB.
    ///
    /// - Parameter keys: for the first MiB, of ``NewHead/firstKeys``; nil: the ring is asked for that too.
    /// - Throws: `locked`: what was appended before can still be finished. `handleFailed` after any other error.
    package func append(
        _ buffer: UnsafeRawBufferPointer, _ keys: consuming FileKeys? = nil
    ) throws(DataProtectionError) {
        try requireWhole()
        var keys = keys
        var done = 0
        while done < buffer.count {
            let part = UnsafeRawBufferPointer(rebasing: buffer[done...].prefix(OpenFile.segment))
            let fileKeys = try segmentKeys(given: keys.take())
            try dying { () throws(DataProtectionError) in try appendSegment(part, fileKeys) }
            done += part.count
        }
    }

    /// The keys for one step: the next MiB.
    private func segmentKeys(given: FileKeys?) throws(DataProtectionError) -> FileKeys {
        if let given { return given }
        var session = KeySession(keybag)
        return try keys.keys(for: head, .write, needsHead: true, &session)
    }

    /// Runs a step after whose failure there is no finished file.
    private func dying(_ step: () throws(DataProtectionError) -> Void) throws(DataProtectionError) {
        do throws(DataProtectionError) { try step() } catch {
            failure = failure ?? error.errno
            throw error
        }
    }

    private func requireWhole() throws(DataProtectionError) {
        if let failure { throw .because(FileFailure.handleFailed(path, failure)) }
    }

    /// Appends zeros that take no place on disk.
    ///
    /// - Parameter hole: plaintext bytes, from the current end on, where a chunk begins: whole chunks, or up to the end of the
    ///   file; at most 32 such ranges that do not touch.
    package func append(hole: Range<UInt64>) throws(DataProtectionError) {
        try requireWhole()
        let fileKeys = try segmentKeys(given: nil)
        let first = layout.index(of: hole.lowerBound)
        holes.insert(first..<first + layout.chunkCount(size: hole.upperBound - hole.lowerBound))
        size = hole.upperBound
        try dying { () throws(DataProtectionError) in try sealHead(nil, fileKeys) }
    }

    /// Puts the head in front of the chunks and makes the file last. It still has no name.
    ///
    /// - Parameters:
    ///   - source: a file whose mode, owner, times and extended attributes it gets, after the last write, because a write sets the time and clears a
    ///     set-user-id bit.
    ///   - keepingOwner: false: it is a different file from the source and belongs to the user who makes it.
    package func finish(looksOf source: LowerFile? = nil, keepingOwner: Bool = true) throws(DataProtectionError) {
        try requireWhole()
        try behind.drain()
        if let tail { try file.write(tail, at: layout.home(sealedChunks)) }
        // Holes at the end have nothing behind them.
        if !holes.runs.isEmpty { try file.truncate(to: layout.extent(of: head.content.record, generation: 1)) }
        try file.write(try withKeys { () throws(KeyError) in try head.encoded() }, at: 0)
        if let source { try FileAttributes.copy(from: source, to: file, keepingOwner: keepingOwner) }
        try file.flushAll()
    }

    /// Gives the finished file a stronger class, before it has its name.
    ///
    /// - Throws: `locked` unless both class keys are there.
    package func raise(to protectionClass: ProtectionClass) throws(DataProtectionError) {
        head = try file.withByteLock(OpenFile.slotLock, .exclusive) { () throws(DataProtectionError) in
            try keybag.rewrap(HeadPair(of: file), file, as: protectionClass, isNamed: false)
            return try HeadPair(of: file).head
        }
        try file.flushAll()
    }

    /// Proves that the file was made to be appended to `log`, whose path is absolute. FORMAT.md §2.8.
    package func joinSeal(for log: FilePath) throws(DataProtectionError) -> [UInt8] {
        let headKey = try segmentKeys(given: nil).head()
        return try withKeys { () throws(KeyError) in
            try JoinSeal.seal(log: log.bytes, in: head.prefix, under: headKey.bytes)
        }
    }

    /// Wipes the keys: nothing more is written.
    package func forgetKeys() { keys = HandleKeys(keybag: keybag, path: path) }

    /// The open file goes on as a handle, with the keys it was made with.
    package func handle() throws(DataProtectionError) -> OpenFile { OpenFile(file, keys: keys) }

    // MARK: sealing

    private func appendSegment(_ part: UnsafeRawBufferPointer, _ fileKeys: FileKeys) throws(DataProtectionError) {
        let newSize = size + UInt64(part.count)
        if newSize <= UInt64(ChunkLayout.maximumInline) {
            let text = try inlineText(fileKeys, roomFor: part.count)
            UnsafeMutableRawBufferPointer(rebasing: text.bytes[Int(size)..<Int(newSize)]).copyMemory(from: part)
            size = newSize
            return try sealHead(text, fileKeys)
        }
        var rest = part
        let chunkSize = layout.chunkSize
        let partial = Int(size % UInt64(chunkSize))
        if partial > 0 || head.content.record.isInline {
            let text = try lastText(fileKeys, room: chunkSize)
            let taken = min(chunkSize - partial, rest.count)
            UnsafeMutableRawBufferPointer(rebasing: text.bytes[partial..<partial + taken])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: rest[..<taken]))
            try put(UnsafeRawBufferPointer(rebasing: text.bytes[..<(partial + taken)]), fileKeys)
            size += UInt64(taken)
            rest = UnsafeRawBufferPointer(rebasing: rest[taken...])
        }
        let whole = rest.count / chunkSize * chunkSize
        if whole > 0 { try put(UnsafeRawBufferPointer(rebasing: rest[..<whole]), fileKeys) }
        if whole < rest.count { try put(UnsafeRawBufferPointer(rebasing: rest[whole...]), fileKeys, from: whole) }
        size += UInt64(rest.count)
        try sealHead(nil, fileKeys)
    }

    /// Seals chunks from the current end (plus `offset` bytes) on: whole ones go home, a partial one stays in memory.
    private func put(
        _ text: UnsafeRawBufferPointer, _ fileKeys: FileKeys, from offset: Int = 0
    ) throws(DataProtectionError) {
        let index = layout.index(of: size + UInt64(offset))
        let run = try SealedRun(text, from: index, layout, fileKeys, memory: memory)
        sealCount += layout.chunkCount(size: UInt64(text.count))
        if text.count % layout.chunkSize == 0 {
            try behind.write(run, at: layout.home(index))
            tail = nil
        } else {
            tail = Array(run.bytes)
        }
    }

    private func lastText(_ fileKeys: FileKeys, room: Int) throws(DataProtectionError) -> WipedBuffer {
        if head.content.record.isInline { return try inlineText(fileKeys, roomFor: room - Int(size)) }
        let text = WipedBuffer(count: room)
        guard let tail else { return text }
        let index = layout.index(of: size)
        do throws(KeyError) {
            try tail.lendBytes { tail throws(KeyError) in
                try fileKeys.open(chunk: index, tail, into: text.prefix(tail.count - ChunkLayout.overhead))
            }
        } catch {
            throw .cryptography(error)
        }
        return text
    }

    private func inlineText(_ fileKeys: FileKeys, roomFor more: Int) throws(DataProtectionError) -> WipedBuffer {
        let text = WipedBuffer(count: Int(size) + more)
        try withFormat(path) { () throws(FormatError) in
            try InlineFile.open(
                head.inline, counter: 0, in: head.prefix, under: fileKeys.head().bytes, into: text.prefix(Int(size)))
        }
        return text
    }

    /// Seals the content record of everything appended so far.
    private func sealHead(_ inline: WipedBuffer?, _ fileKeys: FileKeys) throws(DataProtectionError) {
        do throws(KeyError) {
            sealCount += inline == nil ? 1 : 2
            if let inline {
                let record = ContentRecord(inline: size, counter: 0, sealCount: sealCount)
                head = try head.sealing(record, text: UnsafeRawBufferPointer(inline.prefix(Int(size))), fileKeys.head())
            } else {
                let record = ContentRecord(
                    size: size, layout: layout, holes: holes, counter: 0, sealCount: sealCount)
                head = try head.sealing(record, text: nil, fileKeys.head())
            }
        } catch {
            throw .cryptography(error)
        }
    }
}
