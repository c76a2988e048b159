import ProtectionKeys

/// Whole messages in memory. Larger ones: ``RNCryptorSealer``, ``RNCryptorVerifier``.
///
/// Version 3 makes keys of a password by 10,000 rounds of PBKDF2-HMAC-SHA1, which is weak. It is here for those with whom there
/// is no other way to exchange data; what stays here is better kept in a protected file.
public enum RNCryptor {
    /// The message of version 3 with this text: 50 bytes (with a password 66) and 1 to 16 of padding more.
    public static func seal(
        _ text: UnsafeRawBufferPointer, with secret: borrowing RNCryptorSecret
    ) throws(RNCryptorError) -> [UInt8] {
        try seal(text, RNCryptorSealer(secret))
    }

    /// With a sealer that a test may have made.
    static func seal(
        _ text: UnsafeRawBufferPointer, _ sealer: consuming RNCryptorSealer
    ) throws(RNCryptorError) -> [UInt8] {
        var message = sealer.header
        let start = message.count
        message += [UInt8](repeating: 0, count: text.count + RNCryptorSealer.slack)
        let count = try message.lendMutableBytes { message throws(RNCryptorError) in
            try sealer.seal(text, into: UnsafeMutableRawBufferPointer(rebasing: message[start...]))
        }
        message.removeLast(message.count - start - count)
        return message + (try sealer.finish())
    }

    /// The text of a message of version 2 or 3.
    ///
    /// - Throws: ``RNCryptorError/wrongPasswordOrAltered``, ``RNCryptorError/notRNCryptor``,
    ///   ``RNCryptorError/unsupportedVersion(_:)``, ``RNCryptorError/truncated(length:)``,
    ///   ``RNCryptorError/needsPassword``, ``RNCryptorError/needsKeys``, ``RNCryptorError/malformed``.
    public static func open(
        _ message: UnsafeRawBufferPointer, with secret: borrowing RNCryptorSecret
    ) throws(RNCryptorError) -> [UInt8] {
        let header = try RNCryptorHeader(readFrom: message)
        var verifier = try RNCryptorVerifier(header, with: secret)
        try verifier.update(UnsafeRawBufferPointer(rebasing: message[header.length...]))
        var opener = try verifier.finish()
        var text = [UInt8](repeating: 0, count: message.count - header.length)
        var done = 0
        try text.lendMutableBytes { text throws(RNCryptorError) in
            while let range = opener.next {
                let piece = UnsafeRawBufferPointer(rebasing: message[Int(range.lowerBound)..<Int(range.upperBound)])
                done += try opener.open(piece, into: UnsafeMutableRawBufferPointer(rebasing: text[done...]))
            }
        }
        text.removeLast(text.count - done)
        return text
    }
}
