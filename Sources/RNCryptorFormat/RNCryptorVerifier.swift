import ProtectionKeys

/// The first of two ways through a message: whether the HMAC is right. Only then there is an ``RNCryptorOpener``.
///
/// It takes the message in pieces of any length. It keeps 32 bytes for each 256 KiB, by which the opener knows the message again.
public struct RNCryptorVerifier: ~Copyable, Sendable {
    /// Bytes of the HMAC.
    static let macLength = 32
    /// Of so many bytes of ciphertext each the opener can be sure by itself.
    static let stretch = RNCryptorOpener.longestPiece

    private let header: RNCryptorHeader
    private var reading: MessageReading
    /// How an old writer of version 2 understood the password, if that is something else.
    private var cutReading: MessageReading?
    /// The last bytes so far, which are the HMAC if nothing more comes.
    private var tail: [UInt8] = []
    /// Bytes that came, without the header.
    private var count: Int64 = 0

    /// Begins. A password takes two derivations, four for version 2 where it is not ASCII: some milliseconds each.
    ///
    /// - Throws: ``RNCryptorError/needsPassword``, ``RNCryptorError/needsKeys``.
    public init(_ header: RNCryptorHeader, with secret: borrowing RNCryptorSecret) throws(RNCryptorError) {
        let reading = try MessageReading(header, try secret.keys(for: header))
        var cut: MessageReading?
        if let keys = try secret.cutKeys(for: header) { cut = try MessageReading(header, keys) }
        self.header = header
        self.reading = reading
        cutReading = cut
    }

    /// Takes the next bytes of the message, the header left out.
    public mutating func update(_ bytes: UnsafeRawBufferPointer) throws(RNCryptorError) {
        count += Int64(bytes.count)
        // What is at the end of all that came may be the HMAC, which does not authenticate itself.
        let certain = tail.count + bytes.count - Self.macLength
        guard certain > 0 else {
            tail += bytes
            return
        }
        let ofTail = min(certain, tail.count)
        try take(tail, ofTail)
        let ofBytes = certain - ofTail
        try reading.update(UnsafeRawBufferPointer(rebasing: bytes[..<ofBytes]))
        try cutReading?.update(UnsafeRawBufferPointer(rebasing: bytes[..<ofBytes]))
        tail.removeFirst(ofTail)
        tail += bytes[ofBytes...]
    }

    private mutating func take(_ bytes: [UInt8], _ count: Int) throws(RNCryptorError) {
        try bytes.lendBytes { bytes throws(RNCryptorError) in
            try reading.update(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
            try cutReading?.update(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        }
    }

    /// The verdict, when all bytes have come.
    ///
    /// - Returns: what opens this message, and no other.
    /// - Throws: ``RNCryptorError/truncated(length:)`` for a length that no message has, whatever is in it; else
    ///   ``RNCryptorError/wrongPasswordOrAltered``.
    public consuming func finish() throws(RNCryptorError) -> RNCryptorOpener {
        let textLength = count - Int64(Self.macLength)
        guard textLength > 0, textLength % Int64(CBCCipher.blockSize) == 0 else {
            throw .truncated(length: Int64(header.length) + count)
        }
        let (header, tail) = (header, tail)
        let isRight = try reading.close(holdingAgainst: tail)
        guard let cut = cutReading else {
            guard isRight else { throw .wrongPasswordOrAltered }
            return try RNCryptorOpener(header, reading, textLength: textLength)
        }
        // Both are looked at, whatever the first says.
        let isCutRight = try cut.close(holdingAgainst: tail)
        guard isRight || isCutRight else { throw .wrongPasswordOrAltered }
        return try RNCryptorOpener(header, isRight ? reading : cut, textLength: textLength)
    }
}

/// One way to understand a password: its keys, the HMAC so far, and what the HMAC was at the end of each stretch.
final class MessageReading: @unchecked Sendable {  // of one verifier and then one opener, neither of which is copied
    let keys: MessageKeys
    private var mac: RunningDigest
    /// 32 bytes for each stretch that is whole, or the last one.
    private(set) var marks: [UInt8] = []
    private var inStretch = 0

    init(_ header: RNCryptorHeader, _ keys: consuming MessageKeys) throws(RNCryptorError) {
        mac = try keys.mac(after: header)
        self.keys = keys
    }

    func update(_ bytes: UnsafeRawBufferPointer) throws(RNCryptorError) {
        var rest = bytes
        do throws(KeyError) {
            while rest.count > 0 {
                let part = UnsafeRawBufferPointer(rebasing: rest.prefix(RNCryptorVerifier.stretch - inStretch))
                try mac.update(part)
                inStretch += part.count
                if inStretch == RNCryptorVerifier.stretch {
                    marks += try mac.valueSoFar()
                    inStretch = 0
                }
                rest = UnsafeRawBufferPointer(rebasing: rest[part.count...])
            }
        } catch {
            throw .cryptography(error)
        }
    }

    /// Whether `tag` is the HMAC of everything, compared in constant time.
    func close(holdingAgainst tag: [UInt8]) throws(RNCryptorError) -> Bool {
        do throws(KeyError) {
            let value = try mac.valueSoFar()
            if inStretch > 0 { marks += value }
            return areEqualInConstantTime(value, tag)
        } catch {
            throw .cryptography(error)
        }
    }
}
