extension HTTPError: CustomStringConvertible {
    /// One line, or more where a verdict has several reasons. What came from a server is made fit for a terminal; nothing in it
    /// is secret, but for the URL's host.
    public var description: String {
        switch self {
        case .refused(let error): "\(error)"
        case .cancelled: "cancelled"
        case .unsupportedURL(let why): "not a URL for a request: \(why)"
        case .credentialsInURL: "user and password do not belong into a URL, where others can read them"
        case .plainHTTPNotAllowed(let host):
            "http:// must be allowed explicitly: everybody on the way to \(host) could read and change it"
        case .credentialsOverPlainHTTP(let host):
            "no credentials over http://: everybody on the way to \(host) could read them"
        case .malformedRequest(let why): "not a request: \(why)"
        case .malformedHeader(let name): "not a header, or not a value for one: \(Escaped(name))"
        case .managedHeader(let name): "the header \(Escaped(name)) belongs to the connection"
        case .unsupportedProxy(let why): "not a proxy that can be used: \(why)"
        case .hostNotFound(let host): "no such host: \(host)"
        case .cannotConnect(let host, let port): "cannot connect to \(host) port \(port)"
        case .connectTimeout(let host, let port, let time):
            "no connection to \(host) port \(port) after \(time)"
        case .stalled(let limit): "less than \(limit.bytesPerSecond) bytes per second for \(limit.duration)"
        case .connectionLost: "the connection was lost"
        case .truncated(let received, .some(let expected)): "the response ends after \(received) of \(expected) bytes"
        case .truncated(let received, nil): "the response was cut after \(received) bytes"
        case .proxyRefused(let proxy, .some(let status)):
            "the proxy \(Origin.authority(proxy.host, proxy.port)) refuses, with status \(status)"
        case .proxyRefused(let proxy, nil): "the proxy \(Origin.authority(proxy.host, proxy.port)) refuses"
        case .serverNotTrusted(let verdict, let chain): "\(chain.host) port \(chain.port) is not trusted: \(verdict)"
        case .tlsFailed(let host, let port): "no TLS connection to \(host) port \(port)"
        case .clientCertificateRequired(let host, let port): "\(host) port \(port) wants a client certificate"
        case .clientCertificateRefused(let host, let port):
            "\(host) port \(port) does not accept the client certificate"
        case .malformedResponse(let why): "not a response of HTTP: \(why)"
        case .responseTooLarge(let limit, .some(let announced)):
            "the response has \(announced) bytes, and \(limit) are allowed"
        case .responseTooLarge(let limit, nil): "the response has more than \(limit) bytes"
        case .unexpectedType(let seen, let wanted):
            "the response is \(seen.map { "\(Escaped($0))" } ?? "of no type"), not \(wanted.joined(separator: " or ")): a page to log in?"
        case .tooManyRedirects(let limit): "more than \(limit) redirects"
        case .redirectToPlainHTTP(let from, let to):
            "\(from) redirects to http://\(to), which everybody could read and change"
        case .redirectOfBody(let from, let to):
            "\(from) redirects the upload to \(to), another server; if you trust it, upload there directly"
        case .malformedRedirect: "a redirect to nowhere"
        default: authenticationDescription
        }
    }

    private var authenticationDescription: String {
        switch self {
        case .spaceNotListed(let met, .some(let nearest)):
            "not a listed protection space: \(met); the nearest is \(nearest)"
        case .spaceNotListed(let met, nil): "not a listed protection space: \(met); none is"
        case .authenticationUnsupported(let methods, let host):
            "\(host) wants an authentication that cannot be done: \(methods.map { "\(Escaped($0))" }.joined(separator: ", "))"
        case .credentialRefused(let space): "the credential was refused: \(space)"
        case .authenticationCancelled(let space): "the authentication was cancelled: \(space)"
        case .spaceRejected(let space): "the protection space was rejected: \(space)"
        case .spaceChanged(let chosen, .some(let met)): "the server asked for \(chosen), and then for \(met)"
        case .spaceChanged(let chosen, nil): "the server asked for \(chosen), and then for something else"
        case .malformedCredential(let space): "HTTP cannot carry this credential, or it is of another kind: \(space)"
        case .credentialsUnavailable(let space, let error): "no credential could be had for \(space): \(error)"
        case .transport(let why): why
        default: "failed"
        }
    }
}
