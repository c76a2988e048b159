import ProtectionKeys
public import TrustedHTTP

/// One of the values that a signature is about, by the name that both parties have agreed upon.
public struct SignedField: Hashable, Sendable {
    /// The name of the field.
    public let name: String
    /// The bytes that are signed.
    public let value: [UInt8]

    /// A field of bytes.
    public init(_ name: String, _ value: [UInt8]) { (self.name, self.value) = (name, value) }
    /// A field of text, as UTF-8.
    public init(_ name: String, _ value: String) { self.init(name, Array(value.utf8)) }
}

/// Signatures of requests and uploads: HMAC-SHA256 under the key, 32 bytes.
extension IntegrityKey {
    /// Signs declared fields, in their order, with the id of the key.
    ///
    ///     bytes      field
    ///     4          length of the key's id          lengths and counts are little-endian
    ///     …          the key's id, UTF-8
    ///     4          number of fields
    ///     4, …, 4, …  of each field: length of its name, name, length of its value, value
    ///
    /// With its length before it no value can be taken for the end of one and the beginning of the next.
    public func signature(of fields: [SignedField]) throws(DownloadError) -> [UInt8] {
        try tag(of: message(of: fields))
    }

    /// Whether `signature` is the one of these fields; compared in constant time.
    public func isValid(_ signature: [UInt8], of fields: [SignedField]) throws(DownloadError) -> Bool {
        areEqualInConstantTime(signature, try self.signature(of: fields))
    }

    /// Signs a body, byte by byte as it is sent. Sealed before, it is the ciphertext that is signed: the other side checks the
    /// signature before it opens anything.
    ///
    /// - Throws: what the body throws; ``DownloadError``.
    public func signature(of body: any HTTPBody) throws -> [UInt8] {
        var mac = try running()
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: WriteBuffer.capacity, alignment: 16)
        defer { piece.deallocate() }
        var offset: UInt64 = 0
        while offset < body.length {
            let count = try body.read(into: piece, at: offset)
            guard count > 0 else { throw DownloadError.invalidRequest(reason: "the body is shorter than it said") }
            try mac.update(UnsafeRawBufferPointer(rebasing: piece[..<count]))
            offset += UInt64(count)
        }
        return try mac.finish()
    }

    /// Whether `signature` is the one of this body. To be asked before the body is decrypted.
    ///
    /// - Throws: as ``signature(of:)-(HTTPBody)``.
    public func isValid(_ signature: [UInt8], of body: any HTTPBody) throws -> Bool {
        areEqualInConstantTime(signature, try self.signature(of: body))
    }

    func message(of fields: [SignedField]) -> [UInt8] {
        func number(_ count: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: count >> (8 * $0)) } }
        func prefixed(_ bytes: [UInt8]) -> [UInt8] { number(bytes.count) + bytes }
        return prefixed(Array(id.utf8)) + number(fields.count)
            + fields.flatMap { prefixed(Array($0.name.utf8)) + prefixed($0.value) }
    }
}
