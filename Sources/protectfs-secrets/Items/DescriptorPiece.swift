import Glibc

/// What a descriptor gives next, for ``SecretLineReader``.
enum DescriptorPiece {
    /// read(2), again when a signal comes in between.
    ///
    /// - Parameter name: for the error.
    /// - Returns: bytes; 0 at the end.
    /// - Throws: status 74.
    static func read(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer, _ name: String) throws(Failure)
        -> Int
    {
        while true {
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Failure(.inputOutput, "\(name): \(Errno.current.spoken)") }
            return count
        }
    }
}
