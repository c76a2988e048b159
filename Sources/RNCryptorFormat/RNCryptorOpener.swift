import ProtectionKeys

/// The second way through a message, which was verified: its plaintext. Made by ``RNCryptorVerifier/finish()`` and by nothing else.
///
/// It asks for one stretch of the message after the other, 256 KiB each, until ``next`` is nil. A stretch that is not the one
/// that was verified is refused before any of it is decrypted: what comes out is authentic, even if somebody writes to the
/// message meanwhile.
public struct RNCryptorOpener: ~Copyable, Sendable {
    /// Bytes of a piece that ``next`` asks for, at most.
    public static let longestPiece = 1 << 18

    /// What ``open(_:into:)`` takes next: bytes of the message, its first byte being 0. Nil at the end, and after an error.
    public private(set) var next: Range<Int64>?

    private let reading: MessageReading
    private var mac: RunningDigest
    private var cipher: CBCCipher
    private var stretch = 0
    /// Where ciphertext ends and the HMAC begins.
    private let end: Int64

    init(_ header: RNCryptorHeader, _ reading: MessageReading, textLength: Int64) throws(RNCryptorError) {
        let mac = try reading.keys.mac(after: header)
        let cipher = try reading.keys.cipher(.opening, after: header)
        end = Int64(header.length) + textLength
        next = Self.stretch(from: Int64(header.length), before: end)
        self.reading = reading
        self.mac = mac
        self.cipher = cipher
    }

    /// Opens what ``next`` asked for.
    ///
    /// - Parameters:
    ///   - bytes: these bytes of the message.
    ///   - output: as many; may be the same memory.
    /// - Returns: how many bytes of `output` are plaintext: all, but at the end of the message.
    /// - Throws: ``RNCryptorError/changedSinceVerified``, ``RNCryptorError/malformed``: nothing of this stretch is in
    ///   `output`, and there is no next one. ``RNCryptorError/wrongLength(expected:actual:)``: nothing has happened.
    public mutating func open(
        _ bytes: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(RNCryptorError) -> Int {
        guard let range = next else { throw .unusable }
        guard bytes.count == range.count else { throw .wrongLength(expected: range.count, actual: bytes.count) }
        guard output.count >= bytes.count else { throw .wrongLength(expected: range.count, actual: output.count) }
        next = nil
        let text = UnsafeMutableRawBufferPointer(rebasing: output[..<bytes.count])
        let value: [UInt8]
        do throws(KeyError) {
            try mac.update(bytes)
            value = try mac.valueSoFar()
        } catch {
            throw .cryptography(error)
        }
        guard isMark(value) else { throw .changedSinceVerified }
        do throws(KeyError) { try cipher.update(bytes, into: text) } catch {
            SecretBytes.wipe(text)
            throw .cryptography(error)
        }
        stretch += 1
        next = Self.stretch(from: range.upperBound, before: end)
        return next == nil ? try Self.withoutPadding(text) : text.count
    }

    /// Whether the HMAC was this one at the end of this stretch, when everything was verified.
    private borrowing func isMark(_ value: [UInt8]) -> Bool {
        let length = RNCryptorVerifier.macLength
        return areEqualInConstantTime(value, Array(reading.marks[stretch * length..<(stretch + 1) * length]))
    }

    private static func stretch(from start: Int64, before end: Int64) -> Range<Int64>? {
        start < end ? start..<min(end, start + Int64(RNCryptorVerifier.stretch)) : nil
    }

    /// PKCS #7 (RFC 5652 §6.3). The HMAC was right, so that nobody learns anything from this verdict who does not have the key.
    private static func withoutPadding(_ text: UnsafeMutableRawBufferPointer) throws(RNCryptorError) -> Int {
        let padding = Int(text[text.count - 1])
        guard 1...CBCCipher.blockSize ~= padding, text.suffix(padding).allSatisfy({ $0 == UInt8(padding) }) else {
            SecretBytes.wipe(text)
            throw .malformed
        }
        return text.count - padding
    }
}
