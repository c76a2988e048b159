import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

/// The content of a file at one moment: what its writer has pending, else records, else home, else holes.
///
/// A value. It stays as it is while its ``FileContent`` goes on, so that readers can each have one.
package struct FileView {
    package let file: LowerFile
    /// The committed content.
    package var state: FileState
    /// What the writer has not committed; nil if nothing is pending, or if another handle writes.
    package var pending: PendingWrites?
    /// Whether the writer lock is held: nobody else can move the content then.
    package let isWriters: Bool
    private let memory: SealedMemory

    /// - Parameter memory: for ciphertext on its way.
    init(
        _ file: LowerFile, _ state: FileState, pending: PendingWrites?, isWriters: Bool, _ memory: SealedMemory
    ) {
        self.file = file
        self.state = state
        self.pending = pending
        self.isWriters = isWriters
        self.memory = memory
    }

    private enum Source {
        case hole
        case memory([UInt8])
        case stored(FileState.Place)
    }

    private var layout: ChunkLayout { state.layout }
    /// The plaintext size in bytes.
    package var size: UInt64 { pending?.size ?? state.record.size }
    /// Whether the plaintext lies in the head.
    package var isInline: Bool { pending.map { $0.form != .chunked } ?? state.record.isInline }

    /// How much ciphertext is read at once, in bytes.
    private static let batch = 1 << 20

    /// Reads up to `buffer.count` bytes from plaintext `offset` on; fewer only at the end of the file.
    package func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64, _ keys: FileKeys
    ) throws(Trouble) -> Int {
        guard offset < size else { return 0 }
        let count = Int(min(UInt64(buffer.count), size - offset))
        let output = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        guard isInline else {
            try readChunks(output, at: offset, keys)
            return count
        }
        let text = try inlineText(keys)
        let start = Int(offset)
        text.withBytes { output.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<start + count])) }
        return count
    }

    /// The plaintext of an inline file.
    package func inlineText(_ keys: FileKeys) throws(Trouble) -> WipedBuffer {
        var sealed = state.heads.head.inline
        var counter = state.record.counter
        if case .inline(let pending)? = pending?.form { (sealed, counter) = (pending, counter + 1) }
        let text = WipedBuffer(count: sealed.count - ChunkLayout.overhead)
        try certainly { () throws(DataProtectionError) in
            try withFormat(file.path) { () throws(FormatError) in
                try InlineFile.open(
                    sealed, counter: counter, in: state.heads.head.prefix, under: keys.head().bytes,
                    into: text.prefix(text.count))
            }
        }
        return text
    }

    /// Reads all of `output` from plaintext `offset` on; the caller has checked that it is within the size.
    private func readChunks(
        _ output: UnsafeMutableRawBufferPointer, at offset: UInt64, _ keys: FileKeys
    ) throws(Trouble) {
        let chunkSize = UInt64(layout.chunkSize)
        let end = offset + UInt64(output.count)
        var index = layout.index(of: offset)
        while index * chunkSize < end {
            let run = storedRun(from: index, below: layout.index(of: end - 1) + 1)
            if let run {
                try readRun(run, at: index, output, offset, keys)
                index += UInt64(run.count)
            } else {
                try readOne(index, output, offset, keys)
                index += 1
            }
        }
    }

    /// Opens chunk `index` whole into `text`, whose length is the chunk's.
    package func open(_ index: UInt64, into text: UnsafeMutableRawBufferPointer, _ keys: FileKeys) throws(Trouble) {
        switch source(of: index) {
        case .hole: text.initializeMemory(as: UInt8.self, repeating: 0)
        case .memory(let sealed):
            try sealed.lendBytes { sealed throws(Trouble) in try open(index, sealed, into: text, keys) }
        case .stored(let place):
            let sealed = try certainly { () throws(DataProtectionError) in
                try file.bytes(at: place.offset, count: place.length)
            }
            try sealed.lendBytes { sealed throws(Trouble) in try open(index, sealed, into: text, keys) }
        }
    }

    /// Whether chunk `index` reads as zeros.
    private func isHole(_ index: UInt64) -> Bool {
        if let pending { return pending.holes.contains(index) }
        return state.record.holes.contains(index)
    }

    private func source(of index: UInt64) -> Source {
        if isHole(index) { return .hole }
        if let sealed = pending?.sealed(index) { return .memory(sealed) }
        if pending?.atHome.contains(index) == true {
            let length = layout.plainLength(index, size: size) + ChunkLayout.overhead
            return .stored(FileState.Place(offset: layout.home(index), length: length))
        }
        return .stored(state.place(of: index))
    }

    /// The places of chunks that lie one behind the other, from `index` on; nil if the chunk is not stored.
    private func storedRun(from index: UInt64, below end: UInt64) -> [FileState.Place]? {
        guard case .stored(let first) = source(of: index) else { return nil }
        var run = [first]
        var length = first.length
        var next = index + 1
        while next < end, length < Self.batch, case .stored(let place) = source(of: next),
            place.offset == first.offset + UInt64(length)
        {
            run.append(place)
            length += place.length
            next += 1
        }
        return run
    }

    private func readRun(
        _ run: [FileState.Place], at index: UInt64, _ output: UnsafeMutableRawBufferPointer, _ offset: UInt64,
        _ keys: FileKeys
    ) throws(Trouble) {
        let length = run.reduce(0) { $0 + $1.length }
        let taken = memory.take(length)
        defer { memory.giveBack(taken) }
        let sealed = UnsafeMutableRawBufferPointer(rebasing: taken[..<length])
        let count = try certainly { () throws(DataProtectionError) in try file.read(into: sealed, at: run[0].offset) }
        var start = 0
        for (step, place) in run.enumerated() {
            let chunk = index + UInt64(step)
            guard start + place.length <= count else { throw damaged(chunk, "ends early") }
            let bytes = UnsafeRawBufferPointer(rebasing: sealed[start..<start + place.length])
            try deliver(chunk, bytes, output, offset, keys)
            start += place.length
        }
    }

    private func readOne(
        _ index: UInt64, _ output: UnsafeMutableRawBufferPointer, _ offset: UInt64, _ keys: FileKeys
    ) throws(Trouble) {
        if case .memory(let sealed) = source(of: index) {
            return try sealed.lendBytes { sealed throws(Trouble) in
                try deliver(index, sealed, output, offset, keys)
            }
        }
        let (wanted, _) = overlap(index, output, offset)
        UnsafeMutableRawBufferPointer(rebasing: output[wanted]).initializeMemory(as: UInt8.self, repeating: 0)
    }

    /// Opens a chunk straight into the output where all of it is wanted.
    private func deliver(
        _ index: UInt64, _ sealed: UnsafeRawBufferPointer, _ output: UnsafeMutableRawBufferPointer, _ offset: UInt64,
        _ keys: FileKeys
    ) throws(Trouble) {
        let (wanted, within) = overlap(index, output, offset)
        let target = UnsafeMutableRawBufferPointer(rebasing: output[wanted])
        if within == 0, target.count == layout.plainLength(index, size: size) {
            return try open(index, sealed, into: target, keys)
        }
        let text = WipedBuffer(count: layout.plainLength(index, size: size))
        try open(index, sealed, into: UnsafeMutableRawBufferPointer(rebasing: text.bytes[..<text.count]), keys)
        target.copyMemory(from: UnsafeRawBufferPointer(rebasing: text.bytes[within..<within + target.count]))
    }

    /// Which bytes of the output chunk `index` gives, and where in the chunk they begin.
    private func overlap(
        _ index: UInt64, _ output: UnsafeMutableRawBufferPointer, _ offset: UInt64
    ) -> (wanted: Range<Int>, within: Int) {
        let start = index * UInt64(layout.chunkSize)
        let first = max(start, offset)
        let end = min(start + UInt64(layout.chunkSize), offset + UInt64(output.count))
        return (Int(first - offset)..<Int(end - offset), Int(first - start))
    }

    private func open(
        _ index: UInt64, _ sealed: UnsafeRawBufferPointer, into text: UnsafeMutableRawBufferPointer, _ keys: FileKeys
    ) throws(Trouble) {
        guard sealed.count == text.count + ChunkLayout.overhead else { throw damaged(index, "has the wrong length") }
        do throws(KeyError) {
            try keys.open(chunk: index, sealed, into: text)
        } catch .authenticationFailed {
            throw damaged(index, "authentication failed")
        } catch {
            throw .certain(.cryptography(error))
        }
    }

    private func damaged(_ index: UInt64, _ reason: String) -> Trouble {
        let offset = Int64(index * UInt64(layout.chunkSize))
        return .suspect(.damaged(file.path, .chunk, reason: "chunk \(index): \(reason)", offset: offset))
    }
}
