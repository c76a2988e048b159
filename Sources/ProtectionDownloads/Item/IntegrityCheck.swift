public import ProtectionKeys

/// What the bytes of a download must be before it gets its name.
public enum IntegrityCheck: Hashable, Sendable {
    /// So many bytes.
    case length(UInt64)
    /// This digest. MD5 and SHA-1 show accidents only: ``isTamperProof``.
    case digest(RunningDigest.Algorithm, [UInt8])
    /// This HMAC-SHA256, 32 bytes, under the key of that id (``DownloadQueue/addIntegrityKey(_:id:)``).
    case hmacSHA256(keyID: String, tag: [UInt8])

    /// Whether nobody who can alter the file can make the check pass.
    public var isTamperProof: Bool {
        switch self {
        case .length: false
        case .digest(let algorithm, _): algorithm.resistsTampering
        case .hmacSHA256: true
        }
    }

    /// - Throws: `invalidRequest` where the expected value has the wrong length.
    func check() throws(DownloadError) {
        switch self {
        case .length: break
        case .digest(let algorithm, let digest):
            guard digest.count == algorithm.length else {
                throw .invalidRequest(
                    reason: "a \(algorithm.rawValue) digest has \(algorithm.length) bytes, not \(digest.count)")
            }
        case .hmacSHA256(_, let tag):
            guard tag.count == 32 else {
                throw .invalidRequest(reason: "an HMAC-SHA256 has 32 bytes, not \(tag.count)")
            }
        }
    }
}
