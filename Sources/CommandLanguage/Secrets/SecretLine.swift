import DataProtection
import Glibc

/// A line of a descriptor, straight into memory for secrets: up to a newline, a NUL or the end.
package enum SecretLine {
    /// Byte by byte: the bytes behind the line are for the next reader.
    ///
    /// - Parameter limit: a longer line is cut one byte behind it.
    package static func read(from descriptor: Int32, upTo limit: Int) throws(Failure) -> SecretBytes {
        var isAtEnd = false
        return try read(descriptor, limit, atOnce: 1, &isAtEnd)
    }

    /// Reads a line from a program that may fail before it writes anything.
    ///
    /// - Throws: status 75 if the descriptor ends before it gives anything: a later try can help.
    package static func readArriving(on descriptor: Int32, upTo limit: Int) throws(Failure) -> SecretBytes {
        var isAtEnd = false
        let line = try read(descriptor, limit, atOnce: 1, &isAtEnd)
        guard line.count > 0 || !isAtEnd else {
            throw Failure(
                .notNow, "nothing arrived on descriptor \(descriptor)",
                hint: "the program that writes to it may have failed: see its messages")
        }
        return line
    }

    /// A terminal gives a line at a time, and never more than that.
    package static func read(fromTerminal descriptor: Int32, upTo limit: Int) throws(Failure) -> SecretBytes {
        var isAtEnd = false
        return try read(descriptor, limit, atOnce: limit + 2, &isAtEnd)
    }

    /// - Parameter isAtEnd: becomes true if no newline ended the line.
    private static func read(
        _ descriptor: Int32, _ limit: Int, atOnce: Int, _ isAtEnd: inout Bool
    ) throws(Failure) -> SecretBytes {
        var secret = SecretBytes(zeroed: limit + 2)
        let count = try secret.withUnsafeMutableBytes { buffer throws(Failure) -> Int in
            var done = 0
            while done < buffer.count {
                let count = Glibc.read(descriptor, buffer.baseAddress! + done, min(atOnce, buffer.count - done))
                if count < 0 && errno == EINTR { continue }
                guard count >= 0 else {
                    throw Failure(.usage, "cannot read from descriptor \(descriptor): \(Errno.current.spoken)")
                }
                if count == 0 {
                    isAtEnd = true
                    return done
                }
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
