import ProtectionFormat
import ProtectionKeys

/// Plaintext that is needed for a moment: wiped when it goes.
package final class WipedBuffer {
    package let bytes: UnsafeMutableRawBufferPointer

    /// `count` zero bytes.
    package init(count: Int) {
        bytes = .allocate(byteCount: max(count, 1), alignment: 16)
        bytes.initializeMemory(as: UInt8.self, repeating: 0)
        self.count = count
    }

    /// For about `size` bytes in pieces: 64 KiB to 1 MiB. To zero and wipe a whole MiB takes longer than to read a small file.
    package convenience init(piecesOf size: UInt64) {
        self.init(count: Int(min(max(size, UInt64(ChunkLayout.large.chunkSize)), UInt64(OpenFile.segment))))
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

    /// The first `count` bytes.
    package func prefix(_ count: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: bytes[..<count])
    }
}
