import ProtectionKeys

/// Collects what comes in small pieces: sealing and writing it in pieces of a mebibyte costs less. Wiped when it is emptied.
final class WriteBuffer {
    /// In bytes.
    static let capacity = 1 << 20

    private var memory = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    private(set) var count = 0

    deinit { release() }

    var isFull: Bool { count == Self.capacity }
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: memory[..<count]) }

    /// Has room for so many bytes, at least one and at most ``capacity``, before the first of them comes: less than that must do where
    /// more would never be used.
    func reserve(_ count: Int) {
        guard count > memory.count else { return }
        let larger = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 64)
        larger.copyMemory(from: bytes)
        SecretBytes.wipe(UnsafeMutableRawBufferPointer(rebasing: memory[..<self.count]))
        memory.deallocate()
        memory = larger
    }

    /// Takes as many bytes as there is room for.
    ///
    /// - Returns: the others.
    func fill(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        if count + bytes.count > memory.count { reserve(Self.capacity) }
        let taken = min(bytes.count, memory.count - count)
        UnsafeMutableRawBufferPointer(rebasing: memory[count..<count + taken])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<taken]))
        count += taken
        return UnsafeRawBufferPointer(rebasing: bytes[taken...])
    }

    /// How many bytes it has room for now.
    var room: Int { memory.count }

    /// Empties it, and gives its room back until the next byte comes.
    func release() {
        removeAll()
        memory.deallocate()
        memory = UnsafeMutableRawBufferPointer(start: nil, count: 0)
    }

    /// Empties it; it may hold a part of a file that is about to be locked.
    func removeAll() {
        SecretBytes.wipe(UnsafeMutableRawBufferPointer(rebasing: memory[..<count]))
        count = 0
    }
}
