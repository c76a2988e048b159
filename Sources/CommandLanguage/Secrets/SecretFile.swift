import DataProtection
import Glibc

/// A secret that is a whole file, or all that a descriptor gives: straight into memory for secrets.
package enum SecretFile {
    /// Reads all that a descriptor gives.
    ///
    /// - Parameter limit: bytes; more is refused.
    package static func read(_ descriptor: Int32, upTo limit: Int) throws(Failure) -> SecretBytes {
        try read(descriptor, "descriptor \(descriptor)", limit)
    }

    /// Reads a file.
    ///
    /// - Parameter limit: bytes; more is refused.
    package static func read(_ path: FilePath, upTo limit: Int) throws(Failure) -> SecretBytes {
        let file = path.withPlatformString { open($0, O_RDONLY | O_CLOEXEC) }
        guard file >= 0 else { throw Failure(ExitStatus(.current), "\(quoted(path)): \(Errno.current.spoken)") }
        defer { close(file) }
        return try read(file, quoted(path), limit)
    }

    private static func read(_ descriptor: Int32, _ name: String, _ limit: Int) throws(Failure) -> SecretBytes {
        var secret = SecretBytes(zeroed: limit + 1)
        let count = try secret.withUnsafeMutableBytes { buffer throws(Failure) -> Int in
            var done = 0
            while done < buffer.count {
                let count = Glibc.read(descriptor, buffer.baseAddress! + done, buffer.count - done)
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else { throw Failure(.usage, "cannot read from \(name): \(Errno.current.spoken)") }
                if count == 0 { break }
                done += count
            }
            return done
        }
        guard count <= limit else { throw Failure(.usage, "\(name) has more than \(limit) bytes") }
        return secret.slice(0..<count)
    }
}
