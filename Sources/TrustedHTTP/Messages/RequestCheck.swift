import FoundationEssentials

/// What must be so before anything is sent: the request's own form, and that no credential leaves in clear.
enum RequestCheck {
    /// Names that belong to the connection, or that would contradict what is sent (RFC 9110 §7.2, §7.6, §8.6; RFC 9112 §6).
    private static let managed: Set<String> = [
        "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
        "http2-settings", "proxy-connection", "proxy-authorization",
    ]
    /// Names whose values say who somebody is.
    static let credentials: Set<String> = ["authorization", "cookie", "cookie2", "proxy-authorization"]

    /// - Returns: where it goes.
    static func origin(of request: HTTPRequest) throws(HTTPError) -> Origin {
        let origin = try origin(of: request.url)
        guard isToken(request.method) else { throw .malformedRequest("a method is a word of letters") }
        guard !["CONNECT", "TRACE"].contains(request.method.uppercased()) else {
            throw .malformedRequest("\(request.method.uppercased()) is not for requests of applications")
        }
        for header in request.headers {
            guard isToken(header.name) else { throw .malformedHeader(name: header.name) }
            guard header.value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }) else {
                throw .malformedHeader(name: header.name)
            }
            guard !managed.contains(header.name.lowercased()) else { throw .managedHeader(name: header.name) }
        }
        if let proxy = request.proxy, Origin(scheme: "http", host: proxy.host, port: proxy.port) == nil {
            throw .unsupportedProxy("neither a host nor an address, or no port")
        }
        try checkPlain(origin, request)
        return origin
    }

    static func origin(of url: URL) throws(HTTPError) -> Origin {
        guard url.user() == nil, url.password() == nil else { throw .credentialsInURL }
        guard let origin = Origin(url) else {
            throw .unsupportedURL("it begins with https://, or http:// where that is allowed, and a host in ASCII")
        }
        guard url.absoluteString.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else {
            throw .unsupportedURL("it has characters that a URL has only percent-encoded")
        }
        return origin
    }

    private static func checkPlain(_ origin: Origin, _ request: HTTPRequest) throws(HTTPError) {
        guard !origin.isSecure else { return }
        guard request.allowsPlainHTTP else { throw .plainHTTPNotAllowed(host: origin.host) }
        guard !request.headers.contains(where: { credentials.contains($0.name.lowercased()) }) else {
            throw .credentialsOverPlainHTTP(host: origin.host)
        }
    }

    /// RFC 9110 §5.6.2.
    static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }
}

extension HTTPRequest {
    /// What a transfer would refuse before anything is sent.
    package func check() throws(HTTPError) { _ = try RequestCheck.origin(of: self) }

    package var isSecure: Bool { url.scheme?.lowercased() == "https" }
}
