import ProtectionKeys
import Synchronization

/// Remembers which credentials were refused: those are not sent again until they are replaced.
///
/// The marks reveal nothing of the credential without the store's key.
public protocol FailedCredentials: Sendable {
    /// A keyed digest of what identifies a credential; the same for the same bytes as long as the store lasts.
    func mark(_ bytes: borrowing SecretBytes) throws -> [UInt8]
    /// Whether the credential of that mark was refused before.
    func contains(_ mark: [UInt8]) async throws -> Bool
    /// - Parameter credential: the mark of the same credential in no realm. When a person enters the credential again, this mark finds the refusals
    ///   to forget.
    func insert(_ mark: [UInt8], of credential: [UInt8]) async throws
}

/// Refused credentials of this process.
public final class SessionFailures: FailedCredentials {
    private let key: MACKey
    private let marks = Mutex<Set<[UInt8]>>([])

    /// - Throws: ``KeyError`` if the system has no random bytes.
    public init() throws { key = MACKey(secret: try SecretBytes(randomByteCount: 32)) }

    /// By HMAC-SHA-256, under a key of this process.
    public func mark(_ bytes: borrowing SecretBytes) throws -> [UInt8] {
        try bytes.withUnsafeBytes { bytes throws(KeyError) in try key.tag(of: bytes) }
    }
    /// Whether the credential of that mark was refused, in this session.
    public func contains(_ mark: [UInt8]) -> Bool { marks.withLock { $0.contains(mark) } }
    /// Remembers the mark until the process ends.
    public func insert(_ mark: [UInt8], of credential: [UInt8]) { marks.withLock { _ = $0.insert(mark) } }
}

extension FailedCredentials {
    /// Remembers that it was refused there.
    package func insert(_ credential: Credential, in space: ProtectionSpace) async throws {
        let anywhere = ProtectionSpace(space.kind, host: space.host, port: space.port)
        try await insert(
            mark(credential.fingerprint(in: space)), of: mark(credential.fingerprint(in: anywhere)))
    }

    package func contains(_ credential: Credential, in space: ProtectionSpace) async throws -> Bool {
        try await contains(mark(credential.fingerprint(in: space)))
    }
}

extension Credential {
    /// What identifies it in a space, with the lengths of its parts.
    ///
    /// The realm is part of it. The method is not, so that a password that Digest refused is not sent again as Basic.
    package func fingerprint(in space: ProtectionSpace) -> SecretBytes {
        let secret: CredentialSecret?
        var parts = [space.kind.rawValue, space.host, String(space.port), space.realm ?? ""].map { Array($0.utf8) }
        switch content {
        case .password(let user, let password):
            parts.append(Array(user.utf8))
            secret = password
        case .token(let token): secret = token
        case .identity(let identity):
            parts.append(identity.certificate.sha256)
            secret = nil
        }
        let clear = parts.flatMap { part in (0..<4).map { UInt8(truncatingIfNeeded: part.count >> (8 * $0)) } + part }
        return SecretBytes(byteCount: clear.count + (secret?.bytes.count ?? 0)) { slot in
            slot.copyBytes(from: clear)
            secret?.bytes.withUnsafeBytes { slot[clear.count...].copyBytes(from: $0) }
        }
    }
}
