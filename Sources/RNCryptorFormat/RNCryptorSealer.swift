import ProtectionKeys

/// Seals text that comes piece by piece, of any length, as a message of version 3.
///
/// The message is ``header``, what every ``seal(_:into:)`` writes, and what ``finish()`` returns, one behind the other.
public struct RNCryptorSealer: ~Copyable, Sendable {
    /// How much longer than the text the output of one ``seal(_:into:)`` can be, in bytes.
    public static let slack = CBCCipher.blockSize - 1

    /// The first bytes of the message.
    public let header: [UInt8]
    private var cipher: CBCCipher
    private var mac: RunningDigest
    /// A block that is not whole yet, in its first bytes.
    private var partial = SecretBytes(zeroed: CBCCipher.blockSize)
    private var partialCount = 0
    private var isUsable = true

    /// Begins a message, with random salts and initial value. A password takes two derivations, some milliseconds.
    public init(_ secret: borrowing RNCryptorSecret) throws(RNCryptorError) {
        let header = try withKeys { () throws(KeyError) in
            let salts = secret.kind == .password ? RNCryptorHeader.saltLength : 0
            return RNCryptorHeader(
                kind: secret.kind, encryptionSalt: try Randomness.bytes(salts), macSalt: try Randomness.bytes(salts),
                initial: try Randomness.bytes(RNCryptorHeader.initialLength))
        }
        try self.init(secret, header)
    }

    /// With the header given: a test's.
    init(_ secret: borrowing RNCryptorSecret, _ header: RNCryptorHeader) throws(RNCryptorError) {
        let keys = try secret.keys(for: header)
        let cipher = try keys.cipher(.sealing, after: header)
        let mac = try keys.mac(after: header)
        self.header = header.bytes
        self.cipher = cipher
        self.mac = mac
    }

    /// Seals the next piece.
    ///
    /// - Parameters:
    ///   - text: any number of bytes.
    ///   - output: at least ``slack`` bytes more, elsewhere.
    /// - Returns: how many bytes of `output` belong to the message now: a multiple of 16.
    /// - Throws: ``RNCryptorError/wrongLength(expected:actual:)`` if `output` is too small; nothing has happened then.
    public mutating func seal(
        _ text: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(RNCryptorError) -> Int {
        guard isUsable else { throw .unusable }
        guard output.count >= text.count + Self.slack else {
            throw .wrongLength(expected: text.count + Self.slack, actual: output.count)
        }
        // What can be filled up to whole blocks is; the rest waits.
        let total = partialCount + text.count
        let whole = total / CBCCipher.blockSize * CBCCipher.blockSize
        guard whole > 0 else {
            keep(text)
            return 0
        }
        let taken = whole - partialCount
        let sealed = UnsafeMutableRawBufferPointer(rebasing: output[..<whole])
        partial.withUnsafeBytes { sealed.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<partialCount])) }
        UnsafeMutableRawBufferPointer(rebasing: sealed[partialCount...])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: text[..<taken]))
        partialCount = 0
        keep(UnsafeRawBufferPointer(rebasing: text[taken...]))
        try sealInPlace(sealed)
        return whole
    }

    /// The last bytes of the message: padding and HMAC, 48 bytes.
    public consuming func finish() throws(RNCryptorError) -> [UInt8] {
        guard isUsable else { throw .unusable }
        let padding = UInt8(CBCCipher.blockSize - partialCount)
        var last = [UInt8](repeating: padding, count: CBCCipher.blockSize)
        try last.lendMutableBytes { block throws(RNCryptorError) in
            partial.withUnsafeBytes { block.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<partialCount])) }
            try sealInPlace(block)
        }
        do throws(KeyError) { return last + (try mac.valueSoFar()) } catch { throw .cryptography(error) }
    }

    private mutating func keep(_ text: UnsafeRawBufferPointer) {
        let start = partialCount
        partial.withUnsafeMutableBytes {
            UnsafeMutableRawBufferPointer(rebasing: $0[start...]).copyMemory(from: text)
        }
        partialCount += text.count
    }

    /// Text in, message out; on an error nothing of the text stays there.
    private mutating func sealInPlace(_ blocks: UnsafeMutableRawBufferPointer) throws(RNCryptorError) {
        do throws(KeyError) {
            try cipher.update(UnsafeRawBufferPointer(blocks), into: blocks)
            try mac.update(UnsafeRawBufferPointer(blocks))
        } catch {
            SecretBytes.wipe(blocks)
            isUsable = false
            throw .cryptography(error)
        }
    }
}
