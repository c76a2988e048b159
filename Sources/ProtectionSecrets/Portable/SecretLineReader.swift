import Glibc
import ProtectionKeys

/// Lines that may be secret, one after the other, in memory for secrets.
package struct SecretLineReader: ~Copyable {
    private let read: (UnsafeMutableRawBufferPointer) throws -> Int
    private var buffer: SecretBytes
    private var filled = 0..<0
    /// Up to where there is no newline in it.
    private var searched = 0
    private var isAtEnd = false

    /// - Parameters:
    ///   - longest: bytes of a line without its newline; a longer one is refused.
    ///   - read: fills a buffer, and says how many bytes it put there; 0 at the end.
    package init(longest: Int, _ read: @escaping (UnsafeMutableRawBufferPointer) throws -> Int) {
        self.read = read
        buffer = SecretBytes(zeroed: longest + 1)
    }

    /// The next line without its newline; nil at the end.
    ///
    /// - Throws: ``SecretError/invalid(reason:)`` for a line that is too long.
    package mutating func next() throws -> SecretBytes? {
        while true {
            let (range, start) = (filled, searched)
            let newline = buffer.withUnsafeBytes { Self.newline(in: $0, start..<range.upperBound) }
            if let newline {
                (filled, searched) = (newline + 1..<range.upperBound, newline + 1)
                return buffer.slice(range.lowerBound..<newline)
            }
            searched = range.upperBound
            if isAtEnd {
                (filled, searched) = (0..<0, 0)
                return range.isEmpty ? nil : buffer.slice(range)
            }
            try fill()
        }
    }

    private static func newline(in bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Int? {
        guard let base = bytes.baseAddress, let found = memchr(base + range.lowerBound, 0x0A, range.count) else {
            return nil
        }
        return UnsafeRawPointer(found) - base
    }

    private mutating func fill() throws {
        let (range, capacity) = (filled, buffer.count)
        guard range.count < capacity else {
            throw SecretError.invalid(reason: "a line is longer than \(capacity - 1) bytes")
        }
        var count = 0
        try buffer.withUnsafeMutableBytes { bytes in
            if range.lowerBound > 0, let start = bytes.baseAddress {
                start.copyMemory(from: start + range.lowerBound, byteCount: range.count)
            }
            count = try read(UnsafeMutableRawBufferPointer(rebasing: bytes[range.count...]))
        }
        (filled, searched) = (0..<range.count + count, range.count)
        isAtEnd = count == 0
    }
}
