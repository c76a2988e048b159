/// Why a download has failed for good, or on its last try: stored in the list for later queries, in any process.
public struct DownloadFailure: Error, Hashable, Sendable, Codable {
    /// In which way.
    public enum Kind: String, Hashable, Sendable, Codable, CaseIterable {
        /// A digest, a MAC or a length is another one than was expected. Nothing was published, the partial was removed.
        case checksum
        /// The server is not trusted. No request was sent.
        case untrusted
        /// The server wants credentials that there are not, or does not take those that there are.
        case credentials
        /// The server wants to be told who one is in a way that this cannot do. Nothing was sent.
        case authenticationUnsupported
        /// The server has refused, with a status that waiting does not change.
        case refused
        /// It was tried often, or long enough. What came is kept.
        case gaveUp
        /// The connection failed in a way that waiting does not change.
        case connection
        /// The body cannot be used: encoded, or larger than allowed.
        case unusable
        /// The disk is full, or the directory cannot be written to. What came is kept.
        case disk
        /// Something has appeared under the name that it was to have. What came is kept.
        case targetExists
        /// What had come was removed or damaged by somebody else.
        case lost
        /// Its entry in the list was altered or damaged. It can only be taken out of the list.
        case damaged
        /// An integrity key is unknown, retired or weak.
        case integrityKey
    }

    /// In which way.
    public let kind: Kind
    /// In words, lower case, without full stop: what was expected and what was there. 4,000 characters at most: servers have a
    /// say in it.
    public let message: String
    /// The server's status, if that is the reason.
    public var status: Int?
    /// The host that has no address, if that is the reason: its name is wrong, or there is no network.
    public var unknownHost: String?
    /// The server that refused, or is not trusted, as `host` or `host:port`: a redirect may have led to it.
    public internal(set) var server: String?

    /// A failure.
    ///
    /// - Parameters:
    ///   - kind: in which way.
    ///   - message: in words; what is longer than 4,000 characters is cut.
    ///   - status: the server's status, if that is the reason.
    ///   - unknownHost: the host that has no address, if that is the reason.
    public init(_ kind: Kind, _ message: String, status: Int? = nil, unknownHost: String? = nil) {
        (self.kind, self.message, self.status) = (kind, String(message.prefix(4000)), status)
        self.unknownHost = unknownHost
    }
}
