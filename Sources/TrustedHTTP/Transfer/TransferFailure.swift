import CCurl

/// What an error of libcurl means for one exchange.
struct TransferFailure {
    private let exchange: Exchange
    private let received: UInt64
    private var request: HTTPRequest { exchange.request }
    private var origin: Origin { exchange.origin }

    init(_ exchange: Exchange, _ received: UInt64) { (self.exchange, self.received) = (exchange, received) }

    func error(_ code: CURLcode) -> HTTPError {
        switch code {
        case CURLE_COULDNT_RESOLVE_HOST: .hostNotFound(origin.host)
        case CURLE_COULDNT_RESOLVE_PROXY: .hostNotFound(request.proxy?.host ?? origin.host)
        case CURLE_COULDNT_CONNECT: refusalOfProxy ?? cannotConnect
        case CURLE_OPERATION_TIMEDOUT: timeout
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER:
            refusalOfProxy ?? handshakeFailure
        // A server that closes the connection before it has read the request may have said why, but we can no longer read that.
        case CURLE_SEND_ERROR: refusalOfProxy ?? refusalOfClient(isCertain: false) ?? .connectionLost
        case CURLE_PARTIAL_FILE: .truncated(received: received, expected: exchange.announcedCount)
        case CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_FAIL_REWIND:
            refusalOfProxy ?? refusalOfClient() ?? .connectionLost
        case CURLE_HTTP2, CURLE_HTTP2_STREAM: .connectionLost
        case CURLE_PROXY: refusalOfProxy ?? cannotConnect
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING:
            .malformedResponse(LibCurl.text(of: code))
        case CURLE_URL_MALFORMAT: .unsupportedURL(LibCurl.text(of: code))
        default: .transport(LibCurl.text(of: code))
        }
    }

    private var cannotConnect: HTTPError {
        request.proxy.map { .cannotConnect(host: $0.host, port: $0.port) }
            ?? .cannotConnect(host: origin.host, port: origin.port)
    }

    private var timeout: HTTPError {
        exchange.easy.offset(CURLINFO_PRETRANSFER_TIME_T) == 0
            ? .connectTimeout(host: origin.host, port: origin.port, after: request.connectTimeout)
            : .stalled(request.stallLimit)
    }

    /// It did not make the tunnel.
    private var refusalOfProxy: HTTPError? {
        guard let proxy = request.proxy else { return nil }
        let status = exchange.easy.long(CURLINFO_HTTP_CONNECTCODE)
        if proxy.kind == .http, status != 0, status / 100 != 2 { return .proxyRefused(proxy, status: status) }
        return proxy.kind == .socks5h && exchange.handshake.verdict == nil && !exchange.hasHead
            ? .proxyRefused(proxy, status: nil) : nil
    }

    private var handshakeFailure: HTTPError {
        switch exchange.handshake.verdict {
        case let verdict? where !verdict.allowsConnection:
            .serverNotTrusted(
                verdict,
                exchange.handshake.chain ?? PresentedChain(certificates: [], host: origin.host, port: origin.port))
        default: refusalOfClient() ?? .tlsFailed(host: origin.host, port: origin.port)
        }
    }

    /// The server has asked for a client certificate, and then ended the connection for what it got (TLS 1.3 does it after the
    /// handshake). That it was only lost says nothing.
    private func refusalOfClient(isCertain: Bool = true) -> HTTPError? {
        guard exchange.handshake.askedForIdentity, !exchange.hasHead,
            exchange.handshake.hasRefusedIdentity || !isCertain
        else { return nil }
        return exchange.handshake.identity == nil
            ? .clientCertificateRequired(host: origin.host, port: origin.port)
            : .clientCertificateRefused(host: origin.host, port: origin.port)
    }
}
