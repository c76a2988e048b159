import FoundationEssentials

/// What a redirect makes of a request (RFC 9110 §15.4).
enum Redirect {
    /// Whether this is a redirect to be followed.
    static func isOne(_ response: HTTPResponse) -> Bool {
        [301, 302, 303, 307, 308].contains(response.status) && response["Location"] != nil
    }

    /// The request that follows, at another place and perhaps another one.
    ///
    /// - Parameter count: how many were followed, this one included.
    static func next(_ request: HTTPRequest, after response: HTTPResponse, count: Int) throws(HTTPError) -> HTTPRequest
    {
        guard count <= request.maximumRedirects else { throw .tooManyRedirects(limit: request.maximumRedirects) }
        guard let location = response["Location"], let url = target(location, from: request.url) else {
            throw .malformedRedirect
        }
        let (from, to) = (try RequestCheck.origin(of: request.url), try RequestCheck.origin(of: url))
        guard to.isSecure || !from.isSecure else { throw .redirectToPlainHTTP(from: from.host, to: to.host) }
        var next = request
        next.url = url
        switch response.status {
        case 301 where request.method == "POST", 302 where request.method == "POST", 303 where request.method != "HEAD":
            next.method = "GET"
            next.body = nil
            next.headers.removeAll { $0.name.lowercased().hasPrefix("content-") }
        default: break
        }
        // After a 303 the server has taken the body and names the page with the result. After a 301 or 302 that page may be a login form.
        if request.body != nil, next.body == nil, response.status != 303 { next.hasLostBody = true }
        if from != to {
            next.identity = nil
            next.hasLostBody = request.hasLostBody || next.body == nil
            if request.redirectsEverything {
                next.headers.removeAll { RequestCheck.credentials.contains($0.name.lowercased()) }
            } else {
                guard next.body == nil else {
                    let isOtherPort = from.host == to.host
                    func named(_ origin: Origin) -> String {
                        isOtherPort ? "\(origin.host):\(origin.port)" : origin.host
                    }
                    throw .redirectOfBody(from: named(from), to: named(to))
                }
                next.headers.removeAll { !harmless.contains($0.name.lowercased()) }
            }
        }
        return next
    }

    /// The headers that another origin gets: what is asked for, and in which form. Any other may hold a secret.
    private static let harmless: Set<String> = [
        "accept", "accept-charset", "accept-language", "cache-control", "if-match", "if-modified-since",
        "if-none-match", "if-range",
        "if-unmodified-since", "pragma", "range", "user-agent",
    ]

    /// A fragment is the caller's, unless the redirect has one (RFC 9110 §10.2.2): neither is ever sent.
    private static func target(_ location: String, from url: URL) -> URL? {
        guard !location.isEmpty, location.utf8.allSatisfy({ 0x21...0x7E ~= $0 }) else { return nil }
        return URL(string: location, relativeTo: url)?.absoluteURL
    }
}
