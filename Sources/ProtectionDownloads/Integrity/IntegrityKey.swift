public import ProtectionKeys

/// A key for HMAC-SHA256 (RFC 2104) that two parties share, with the name by which they speak of it.
public final class IntegrityKey: Sendable {
    /// The fewest bytes of a key: as many as its tags have. A shorter one is refused; padding it would hide that.
    public static let leastBytes = 32

    /// What the parties call it.
    public let id: String
    let secret: SecretBytes

    /// - Throws: `weakIntegrityKey`, `invalidRequest` for an id of no bytes or of more than 255.
    public init(id: String, _ secret: consuming SecretBytes) throws(DownloadError) {
        let count = secret.count
        guard count >= Self.leastBytes else { throw .weakIntegrityKey(id: id, bytes: count) }
        guard 1...255 ~= id.utf8.count else { throw .invalidRequest(reason: "the id of a key has 1 to 255 bytes") }
        self.id = id
        self.secret = secret
    }

    /// The tag of `message`, 32 bytes.
    public func tag(of message: [UInt8]) throws(DownloadError) -> [UInt8] {
        var mac = try running()
        let result: Result<Void, KeyError>
        do throws(KeyError) { result = .success(try mac.update(message)) } catch { result = .failure(error) }
        do throws(KeyError) {
            try result.get()
            return try mac.finish()
        } catch {
            throw .cryptography(error)
        }
    }

    /// For bytes that come piece by piece.
    func running() throws(DownloadError) -> RunningDigest {
        do throws(KeyError) { return try RunningDigest(hmacSHA256: secret) } catch { throw .cryptography(error) }
    }
}
