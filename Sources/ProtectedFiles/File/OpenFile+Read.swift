import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys

extension OpenFile {
    /// How much is done under one look at the ring, in bytes.
    package static let segment = 1 << 20

    /// The plaintext size, pending writes included.
    package func size(_ operation: AttemptedOperation = .read) throws(DataProtectionError) -> UInt64 {
        if let pending = writer?.pending { return pending.size }
        return try operate(operation) { state, _ throws(Trouble) in state.record.size }
    }

    /// Reads up to `buffer.count` bytes at `offset`; fewer only at the end of the file.
    package func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64
    ) throws(DataProtectionError) -> Int {
        var done = 0
        while done < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[done...].prefix(Self.segment))
            let count = try operate(.read) { state, keys throws(Trouble) in
                try readSegment(rest, at: offset + UInt64(done), state, keys)
            }
            done += count
            if count < rest.count { break }
        }
        return done
    }

    private func readSegment(
        _ buffer: UnsafeMutableRawBufferPointer, at offset: UInt64, _ state: FileState, _ keys: FileKeys
    ) throws(Trouble) -> Int {
        let size = writer?.pending?.size ?? state.record.size
        guard offset < size else { return 0 }
        let count = Int(min(UInt64(buffer.count), size - offset))
        let output = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        if isInline(state) {
            let text = try inlineText(state, keys)
            let start = Int(offset)
            text.withBytes { output.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<start + count])) }
            return count
        }
        let view = ChunkView(file: file, state: state, pending: writer?.pending, memory: memory)
        try view.read(output, at: offset, keys)
        return count
    }

    /// Whether the file, pending writes included, lies in its head.
    package func isInline(_ state: FileState) -> Bool {
        writer?.pending.map { $0.form != .chunked } ?? state.record.isInline
    }

    /// The plaintext of an inline file, pending writes included.
    package func inlineText(_ state: FileState, _ keys: FileKeys) throws(Trouble) -> WipedBuffer {
        var sealed = state.heads.head.inline
        var counter = state.record.counter
        if case .inline(let pending)? = writer?.pending?.form { (sealed, counter) = (pending, counter + 1) }
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
}

/// Plaintext that is needed for a moment: wiped when it goes.
package final class WipedBuffer {
    package let bytes: UnsafeMutableRawBufferPointer

    /// `count` zero bytes.
    package init(count: Int) {
        bytes = .allocate(byteCount: max(count, 1), alignment: 16)
        bytes.initializeMemory(as: UInt8.self, repeating: 0)
        self.count = count
    }

    /// How many bytes are meant.
    package let count: Int

    deinit {
        SecretBytes.wipe(bytes)
        bytes.deallocate()
    }

    package func withBytes<R>(_ body: (UnsafeRawBufferPointer) -> R) -> R {
        body(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }
}
