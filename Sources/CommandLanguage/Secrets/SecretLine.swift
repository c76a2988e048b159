import DataProtection
import Glibc

/// A line of a descriptor, straight into memory for secrets: up to a newline, a NUL or the end.
package enum SecretLine {
    /// Byte by byte: what stands behind the line is for who reads next.
    ///
    /// - Parameter limit: a longer line is cut one byte behind it.
    package static func read(from descriptor: Int32, upTo limit: Int) throws(Failure) -> SecretBytes {
        try read(descriptor, limit, atOnce: 1)
    }

    /// A terminal gives a line at a time, and never more than that.
    package static func read(fromTerminal descriptor: Int32, upTo limit: Int) throws(Failure) -> SecretBytes {
        try read(descriptor, limit, atOnce: limit + 2)
    }

    private static func read(_ descriptor: Int32, _ limit: Int, atOnce: Int) throws(Failure) -> SecretBytes {
        var secret = SecretBytes(zeroed: limit + 2)
        let count = try secret.withUnsafeMutableBytes { buffer throws(Failure) -> Int in
            var done = 0
            while done < buffer.count {
                let count = Glibc.read(descriptor, buffer.baseAddress! + done, min(atOnce, buffer.count - done))
                if count < 0 && errno == EINTR { continue }
                guard count >= 0 else {
                    throw Failure(.usage, "cannot read from descriptor \(descriptor): \(Errno.current.spoken)")
                }
                if count == 0 { return done }
                if let end = buffer[done..<done + count].firstIndex(where: { $0 == 0 || $0 == UInt8(ascii: "\n") }) {
                    return end
                }
                done += count
            }
            return done
        }
        return secret.slice(0..<min(count, limit + 1))
    }
}
