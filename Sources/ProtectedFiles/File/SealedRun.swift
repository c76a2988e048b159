import DurableFiles
import Keybags
import ProtectionFormat
import ProtectionKeys
import Synchronization

/// A run of chunks, sealed one behind the other as they will lie in the file.
package final class SealedRun: @unchecked Sendable {  // written by its maker only, before anybody else sees it
    private let buffer: UnsafeMutableRawBufferPointer
    private let count: Int
    private let memory: SealedMemory

    /// - Parameter memory: where the bytes come from and go back to.
    package init(
        _ text: UnsafeRawBufferPointer, from index: UInt64, _ layout: ChunkLayout, _ keys: FileKeys,
        memory: SealedMemory = SealedMemory()
    ) throws(DataProtectionError) {
        let chunks = Int(layout.chunkCount(size: UInt64(text.count)))
        count = text.count + chunks * ChunkLayout.overhead
        self.memory = memory
        buffer = memory.take(count)
        let nonces = try withKeys { () throws(KeyError) in try Randomness.bytes(12 * chunks) }
        try nonces.lendBytes { nonces throws(DataProtectionError) in
            try Self.seal(text, index, layout, keys, nonces, into: buffer)
        }
    }

    deinit { memory.giveBack(buffer) }

    /// The sealed bytes, lent.
    package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: buffer[..<count]) }

    private static func seal(
        _ text: UnsafeRawBufferPointer, _ index: UInt64, _ layout: ChunkLayout, _ keys: FileKeys,
        _ nonces: UnsafeRawBufferPointer, into sealed: UnsafeMutableRawBufferPointer
    ) throws(DataProtectionError) {
        for step in 0..<nonces.count / 12 {
            let start = step * layout.chunkSize
            let chunk = UnsafeRawBufferPointer(rebasing: text[start...].prefix(layout.chunkSize))
            let target = start + step * ChunkLayout.overhead
            try keys.seal(
                chunk: index + UInt64(step), chunk,
                nonce: UnsafeRawBufferPointer(rebasing: nonces[12 * step..<12 * step + 12]),
                into: UnsafeMutableRawBufferPointer(
                    rebasing: sealed[target..<target + chunk.count + ChunkLayout.overhead]))
        }
    }
}

/// Memory for sealed bytes that is used again: fresh pages for every MiB cost as much as sealing them.
package final class SealedMemory: Sendable {
    private struct Free: @unchecked Sendable {  // nobody else has these
        var buffers: [UnsafeMutableRawBufferPointer] = []
    }
    private let free = Mutex(Free())

    deinit {
        free.withLock { free in
            for buffer in free.buffers { buffer.deallocate() }
        }
    }

    package func take(_ count: Int) -> UnsafeMutableRawBufferPointer {
        let kept = free.withLock { free -> UnsafeMutableRawBufferPointer? in
            free.buffers.firstIndex { $0.count >= count }.map { free.buffers.remove(at: $0) }
        }
        return kept ?? .allocate(byteCount: max(count, 1), alignment: 64)
    }

    package func giveBack(_ buffer: UnsafeMutableRawBufferPointer) {
        let isKept = free.withLock { free in
            guard free.buffers.count < 4 else { return false }
            free.buffers.append(buffer)
            return true
        }
        if !isKept { buffer.deallocate() }
    }
}
