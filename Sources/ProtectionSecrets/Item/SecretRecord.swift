public import FoundationEssentials

/// A secret that is stored, without its value.
///
/// Nobody has authenticated it before ``SecretStore/value(of:in:)`` has opened the value that is bound to it.
public struct SecretRecord: Hashable, Sendable {
    /// 16 random bytes.
    public let id: [UInt8]
    /// What it is for.
    public let name: SecretName
    /// Which programs' it is.
    public let group: AccessGroup
    /// In which lock states it can be read.
    public let accessibility: SecretAccessibility
    /// Milliseconds since 1970, as they are stored.
    package let createdAt: Int64
    /// Likewise.
    package let modifiedAt: Int64
    /// When it was added.
    public var created: Date { Self.date(createdAt) }
    /// When its value or its accessibility was last changed.
    public var modified: Date { Self.date(modifiedAt) }

    /// Nobody authenticates the numbers, and dates far beyond what clocks show crash calendars.
    private static func date(_ milliseconds: Int64) -> Date {
        min(max(Date(timeIntervalSince1970: Double(milliseconds) / 1000), .distantPast), .distantFuture)
    }
}

/// What a search found.
public struct SecretSearchResult: Sendable {
    /// By group, then by name.
    public let records: [SecretRecord]
    /// How many rows make no sense: altered, or damaged. They are left alone.
    public let damaged: Int
}

/// What a search looks for; what is nil may be anything.
public struct SecretQuery: Hashable, Sendable {
    /// Of this kind; nil: of any.
    public var kind: SecretName.Kind?
    /// Of this service; nil: of any.
    public var service: String?
    /// Of this account; nil: of any.
    public var account: String?
    /// Of this protocol; nil: of any.
    public var `protocol`: String?
    /// Of this host; nil: of any.
    public var host: String?
    /// Of this port; nil: of any.
    public var port: Int?
    /// Of this path; nil: of any.
    public var path: String?
    /// Of this realm; nil: of any.
    public var realm: String?
    /// Of this name; nil: of any.
    public var name: String?
    /// Of this accessibility; nil: of any.
    public var accessibility: SecretAccessibility?

    /// Everything.
    public init(kind: SecretName.Kind? = nil) { self.kind = kind }
}

/// A certificate and its private key.
public struct SecretIdentity: ~Copyable, Sendable {
    /// PKCS #12 (RFC 7292), as it was given.
    public let pkcs12: SecretBytes
    /// What opens it; empty: nothing does.
    public let passphrase: SecretBytes

    /// - Throws: ``SecretError/invalid(reason:)`` for what is no DER SEQUENCE of exactly this length.
    public init(pkcs12: consuming SecretBytes, passphrase: consuming SecretBytes) throws(SecretError) {
        let isSequence = pkcs12.withUnsafeBytes { Self.isSequence($0) }
        guard isSequence else { throw .invalid(reason: "this is no PKCS #12: no DER SEQUENCE of its length") }
        self.pkcs12 = pkcs12
        self.passphrase = passphrase
    }

    /// Length of the passphrase (u32) ‖ passphrase ‖ PKCS #12. FORMAT.md §2.15.
    package borrowing func joined() -> SecretBytes {
        SecretBytes(byteCount: 4 + passphrase.count + pkcs12.count) { slot in
            for byte in 0..<4 { slot[byte] = UInt8(truncatingIfNeeded: passphrase.count >> (8 * byte)) }
            let end = 4 + passphrase.count
            passphrase.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: slot[4..<end]).copyMemory(from: $0) }
            pkcs12.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: slot[end...]).copyMemory(from: $0) }
        }
    }

    init(joined: borrowing SecretBytes) throws(SecretError) {
        let length = joined.count
        let end = joined.withUnsafeBytes { bytes -> Int? in
            guard length >= 4 else { return nil }
            let end = (0..<4).reversed().reduce(0) { $0 << 8 | Int(bytes[$1]) } + 4
            return end <= length ? end : nil
        }
        guard let end else { throw .invalid(reason: "the value of an identity makes no sense") }
        try self.init(pkcs12: joined.slice(end..<length), passphrase: joined.slice(4..<end))
    }

    /// X.690 §8.1: tag 30, then a definite length that reaches to the end.
    private static func isSequence(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 2, bytes[0] == 0x30 else { return false }
        guard bytes[1] >= 0x80 else { return Int(bytes[1]) + 2 == bytes.count }
        let digits = Int(bytes[1] & 0x7F)
        guard 1...4 ~= digits, bytes.count >= 2 + digits else { return false }
        return bytes[2..<2 + digits].reduce(0) { $0 << 8 | Int($1) } + 2 + digits == bytes.count
    }
}
