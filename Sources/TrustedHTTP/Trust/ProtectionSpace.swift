/// What a credential is for: a server or proxy, a realm of it (RFC 9110 §11.5), and a way to prove who one is.
///
/// In a list of spaces that may be answered, realm and method may be left open; a space that was met has what the
/// challenge has said.
public struct ProtectionSpace: Hashable, Sendable {
    /// How one talks to the server.
    public enum Kind: String, Hashable, Sendable {
        /// HTTP over TLS.
        case https
        /// Never answered: a credential would leave in clear.
        case http
        /// A proxy of ``HTTPProxy/Kind/http``, asked with 407.
        case proxy
    }

    /// How one talks to the server.
    public let kind: Kind
    /// Lower case, without brackets.
    public let host: String
    /// From 1 to 65535.
    public let port: Int
    /// Compared byte by byte; nil: any, or there is none.
    public let realm: String?
    /// nil: any.
    public let method: AuthenticationMethod?

    /// A space; the host is taken in lower case.
    public init(
        _ kind: Kind = .https, host: String, port: Int, realm: String? = nil, method: AuthenticationMethod? = nil
    ) {
        self.init(kind: kind, host: host.lowercased(), port: port, realm: realm, method: method)
    }

    private init(kind: Kind, host: String, port: Int, realm: String?, method: AuthenticationMethod?) {
        (self.kind, self.host, self.port, self.realm, self.method) = (kind, host, port, realm, method)
    }

    /// Whether this entry of a list allows an answer to the space that was met.
    public func matches(_ met: ProtectionSpace) -> Bool {
        kind == met.kind && host == met.host && port == met.port
            && (realm == nil || realm.map { Array($0.utf8) } == met.realm.map { Array($0.utf8) })
            && (method == nil || method == met.method)
    }

    /// The entry that is most like the space that was met: the first of those that have most in common with it.
    public static func nearest(to met: ProtectionSpace, in list: [ProtectionSpace]) -> ProtectionSpace? {
        func likeness(_ entry: ProtectionSpace) -> Int {
            (entry.host == met.host ? 16 : 0) + (entry.port == met.port ? 8 : 0) + (entry.kind == met.kind ? 4 : 0)
                + (entry.realm == nil || entry.realm == met.realm ? 2 : 0)
                + (entry.method == nil || entry.method == met.method ? 1 : 0)
        }
        return list.enumerated().max { (likeness($0.element), $1.offset) < (likeness($1.element), $0.offset) }?.element
    }
}

/// How one proves who one is.
public enum AuthenticationMethod: String, Hashable, Sendable, CaseIterable {
    /// RFC 7617: the password itself. Only over TLS.
    case basic
    /// RFC 7616: MD5 or SHA-256, each with or without `-sess`, for qop `auth`.
    case digest
    /// MS-NLMP, version 2 of the response.
    case ntlm
    /// RFC 6750: a token of ``BearerTokens``.
    case bearer
    /// A certificate, shown in the TLS handshake.
    case clientCertificate
}

extension ProtectionSpace: CustomStringConvertible {
    public var description: String {
        let server = "\(kind.rawValue)://\(Origin.authority(host, port))"
        let parts = [realm.map { "realm \"\(Escaped($0))\"" }, method?.rawValue].compactMap { $0 }
        return parts.isEmpty ? server : "\(server) (\(parts.joined(separator: ", ")))"
    }
}
