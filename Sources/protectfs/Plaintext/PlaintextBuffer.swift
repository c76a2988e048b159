import DataProtection

/// A buffer for the contents of files. Wiped when it goes.
final class PlaintextBuffer {
    private(set) var bytes: UnsafeMutableRawBufferPointer
    private static let largest = 1 << 20

    /// - Parameter count: in bytes. To zero and wipe a MiB takes longer than to read a small file, and most files are small.
    init(count: Int = 1 << 16) { bytes = Self.zeros(count) }

    deinit { Self.free(bytes) }

    private static func zeros(_ count: Int) -> UnsafeMutableRawBufferPointer {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 4096)
        bytes.initializeMemory(as: UInt8.self, repeating: 0)
        return bytes
    }

    private static func free(_ bytes: UnsafeMutableRawBufferPointer) {
        SecretBytes.wipe(bytes)
        bytes.deallocate()
    }

    /// The first `count` bytes.
    func prefix(_ count: Int) -> UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[..<count]) }

    /// Replaces the bytes by 1 MiB of zeros, if there are fewer: for a file that has filled them.
    func grow() {
        guard bytes.count < Self.largest else { return }
        Self.free(bytes)
        bytes = Self.zeros(Self.largest)
    }
}
