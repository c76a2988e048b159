import ProtectionKeys

/// Collects what comes in small pieces: sealing and writing it in pieces of a mebibyte costs less. Wiped when it is emptied.
final class WriteBuffer {
    /// In bytes.
    static let capacity = 1 << 20

    private let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 64)
    private(set) var count = 0

    deinit {
        removeAll()
        memory.deallocate()
    }

    var isFull: Bool { count == Self.capacity }
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

    /// Takes as many bytes as there is room for.
    ///
    /// - Returns: the others.
    func fill(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let taken = min(bytes.count, Self.capacity - count)
        UnsafeMutableRawBufferPointer(rebasing: memory[count..<count + taken])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<taken]))
        count += taken
        return UnsafeRawBufferPointer(rebasing: bytes[taken...])
    }

    /// Empties it; it may hold a part of a file that is about to be locked.
    func removeAll() {
        SecretBytes.wipe(UnsafeMutableRawBufferPointer(rebasing: memory[..<count]))
        count = 0
    }
}
