public import FoundationEssentials

/// The head of a response, after redirects and challenges.
public struct HTTPResponse: Sendable {
    /// From 100 to 599, such as 200 or 404.
    public let status: Int
    /// As they came; trailers are not among them.
    public let headers: [HTTPHeader]
    /// Where it came from at last.
    public let url: URL
    /// "1.1", "2".
    public let version: String

    /// Whether the response can confirm that the server got the body of the request. False after a redirect to another origin, or by 301 or 302,
    /// that dropped the body.
    package let acknowledgesBody: Bool

    package init(status: Int, headers: [HTTPHeader], url: URL, version: String, acknowledgesBody: Bool = true) {
        (self.status, self.headers, self.url, self.version) = (status, headers, url, version)
        self.acknowledgesBody = acknowledgesBody
    }

    /// The first field of that name, without regard to case.
    public subscript(_ name: String) -> String? {
        headers.first { $0.isNamed(name) }?.value
    }

    /// RFC 9112 §6.3.
    func mayHaveBody(to method: String) -> Bool { method != "HEAD" && status != 204 && status != 304 }

    /// Whether its media type is one of these; parameters as `charset` do not count.
    func isOfType(_ accepted: [String]) -> Bool {
        let type = self["Content-Type"]?.prefix { $0 != ";" && $0 != " " }.lowercased() ?? ""
        return accepted.contains { accepted in
            accepted.hasSuffix("/*") ? type.hasPrefix(accepted.dropLast().lowercased()) : type == accepted.lowercased()
        }
    }
}
