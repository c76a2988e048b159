import ProtectionKeys

/// How a message begins, in the clear; authenticated by its HMAC only.
///
///     bytes   field                                        docs/reference/RNCRYPTOR.md
///     1       version: 3, or 2
///     1       options: 1 with a password, 0 with keys
///     8 + 8   salts of encryption key and HMAC key, with a password only
///     16      initial value
///
/// - SeeAlso: RNCryptor-Spec, data format version 3; version 2.
public struct RNCryptorHeader: Hashable, Sendable {
    /// What opens the message.
    public enum Kind: Hashable, Sendable {
        /// A password, from which both keys are derived.
        case password
        /// Two keys that the receiver has.
        case keys
    }

    /// So many bytes are enough to read any header.
    public static let maximumLength = 34
    /// The version that is written.
    static let newestVersion: UInt8 = 3
    static let saltLength = 8
    static let initialLength = CBCCipher.blockSize

    /// 2 or 3.
    public let version: UInt8
    /// What opens the message.
    public let kind: Kind
    /// Two salts of 8 bytes; empty with keys.
    let encryptionSalt: [UInt8]
    let macSalt: [UInt8]
    let initial: [UInt8]

    /// In bytes: 34 with a password, 18 with keys.
    public var length: Int { 2 + encryptionSalt.count + macSalt.count + initial.count }

    /// Reads the header of a message.
    ///
    /// - Parameter start: the first 34 bytes of the message, or all of it if it is shorter. More do no harm.
    /// - Throws: ``RNCryptorError/notRNCryptor``, ``RNCryptorError/unsupportedVersion(_:)``,
    ///   ``RNCryptorError/truncated(length:)``.
    public init(readFrom start: UnsafeRawBufferPointer) throws(RNCryptorError) {
        guard start.count >= 2 else {
            throw start.first.map { $0 <= Self.newestVersion } ?? true
                ? .truncated(length: Int64(start.count)) : .notRNCryptor
        }
        // The draft of version 4 has a mark before its version.
        if start.count >= 4, start.starts(with: "RNC".utf8) { throw .unsupportedVersion(start[3]) }
        guard start[0] <= Self.newestVersion, start[1] <= 1 else { throw .notRNCryptor }
        guard start[0] >= 2 else { throw .unsupportedVersion(start[0]) }
        version = start[0]
        kind = start[1] == 1 ? .password : .keys
        let saltLength = kind == .password ? Self.saltLength : 0
        guard start.count >= 2 + 2 * saltLength + Self.initialLength else {
            throw .truncated(length: Int64(start.count))
        }
        var rest = start[2...]
        func take(_ count: Int) -> [UInt8] {
            defer { rest = rest.dropFirst(count) }
            return Array(rest.prefix(count))
        }
        encryptionSalt = take(saltLength)
        macSalt = take(saltLength)
        initial = take(Self.initialLength)
    }

    /// The header of a new message; random, but for tests.
    init(
        version: UInt8 = newestVersion, kind: Kind, encryptionSalt: [UInt8], macSalt: [UInt8], initial: [UInt8]
    ) {
        (self.version, self.kind) = (version, kind)
        (self.encryptionSalt, self.macSalt, self.initial) = (encryptionSalt, macSalt, initial)
    }

    /// As it stands in the message.
    var bytes: [UInt8] { [version, kind == .password ? 1 : 0] + encryptionSalt + macSalt + initial }
}
