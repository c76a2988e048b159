import CCurl
import FoundationEssentials

/// One request to one server and what comes back: what libcurl's callbacks and the engine's thread do to it.
///
/// A redirect or a challenge ends it; ``HTTPClient`` makes the next one. Used by the engine's thread alone once it was added.
final class Exchange: @unchecked Sendable {  // handed over to the engine's thread
    let plan: Plan
    /// What the server must show, if there is a TLS handshake, and what it has shown.
    let handshake: TLSHandshake
    let easy: EasyHandle

    /// How it ends.
    enum End: Sendable {
        /// The receiver has got everything.
        case received(HTTPResponse)
        /// To be followed; nothing of its body was kept.
        case redirect(HTTPResponse)
        /// 401 or 407, with its body.
        case challenge(HTTPResponse, body: [UInt8], server: ServerIdentity?)
    }

    /// What becomes of the body of a response.
    enum Use {
        case receive
        /// It is a redirect.
        case follow
        /// It is a refusal.
        case keep
    }

    /// In bytes: of a refusal's body that is kept, and of a redirect's that is read so that the connection can stay.
    static let (keptSize, skippedSize) = (1 << 20, 64 << 10)

    private let receiver: any HTTPReceiver
    private let whenDone: @Sendable (Result<End, HTTPError>) -> Void
    private let wakeEngine: @Sendable (Exchange) -> Void

    private var head = ResponseHead()
    private var isHeadComplete = false
    private var response: HTTPResponse?
    private var currentUse = Use.receive
    private(set) var delivery: Delivery?
    private var kept: [UInt8] = []
    private var bodyCount: UInt64 = 0
    /// What is sent; one that is in memory needs no thread.
    private var feed: BodyFeed?
    private var bodyOffset: UInt64 = 0
    private(set) var pace: Pace
    /// Of the connection in use, which another exchange may have made.
    private var connection: TLSHandshake?
    /// Why a callback has ended it.
    private(set) var failure: HTTPError?
    private var isSkipping = false
    /// How many refusals libcurl was left to answer.
    private var answered = 0
    /// Digest and NTLM, of proxy and server, with a nonce that was too old, need no more.
    private static let maximumAnswered = 5
    /// Whether it is paused: until the receiver has made room, there is more to send, or the bandwidth allows it.
    var isPaused = false

    /// - Parameters:
    ///   - wakeEngine: the receiver has made room, or has thrown. Called on any thread.
    ///   - whenDone: called once, on any thread.
    init(
        _ plan: Plan, _ handshake: TLSHandshake, _ easy: EasyHandle, receiver: any HTTPReceiver,
        wakeEngine: @escaping @Sendable (Exchange) -> Void,
        whenDone: @escaping @Sendable (Result<End, HTTPError>) -> Void
    ) {
        (self.plan, self.handshake, self.easy, self.receiver) = (plan, handshake, easy, receiver)
        (self.wakeEngine, self.whenDone) = (wakeEngine, whenDone)
        pace = Pace(plan.request)
    }

    var request: HTTPRequest { plan.request }
    var origin: Origin { plan.origin }

    // MARK: what libcurl calls

    /// A line of the head, or of trailers.
    func take(line: UnsafeRawBufferPointer) -> Bool {
        ending { () throws(HTTPError) in
            if isHeadComplete {
                guard line.starts(with: "HTTP/".utf8) else { return }  // trailers
                guard delivery == nil else { throw .malformedResponse("it has two heads") }
                isHeadComplete = false
            }
            guard try head.take(line) == .complete else { return }
            isHeadComplete = true
            guard head.status >= 200 else { return }
            try takeHead(head.response(to: request))
        }
    }

    private func takeHead(_ response: HTTPResponse) throws(HTTPError) {
        // The proxy's answer to CONNECT: what counts in it is a refusal, by which libcurl ends.
        if isProxysOwn {
            try checkSpace(of: response, plan.answers.proxy, field: "Proxy-Authenticate", refusal: 407)
            // libcurl would take it for the server's, which has not spoken yet.
            if response.status == 401, let proxy = request.proxy { throw .proxyRefused(proxy, status: 401) }
            if response.status == 407 { self.response = response }
            return
        }
        try checkSpace(of: response, plan.answers.server, field: "WWW-Authenticate", refusal: 401)
        if !origin.isSecure {
            try checkSpace(of: response, plan.answers.proxy, field: "Proxy-Authenticate", refusal: 407)
        }
        self.response = response
        connection = easy.tls.flatMap { LibSSL.handshake(of: $0) }
        currentUse = plan.use(of: response)
        switch currentUse {
        case .receive: try beginDelivery(of: response)
        case .follow: break
        case .keep: kept = []
        }
    }

    /// Whether this head is that of a proxy before the TLS handshake with the server, through a tunnel made for this exchange.
    private var isProxysOwn: Bool {
        request.proxy?.kind == .http && origin.isSecure && handshake.verdict == nil
            && easy.long(CURLINFO_NUM_CONNECTS) > 0
    }

    /// libcurl answers Digest and NTLM by itself once it has read this head: it must ask for what was decided on.
    private func checkSpace(
        of response: HTTPResponse, _ answer: ChallengeAnswer?, field: String, refusal: Int
    ) throws(HTTPError) {
        guard response.status == refusal, let answer, answer.method == .digest || answer.method == .ntlm else { return }
        try answer.check(Challenge.all(in: response, named: field))
        answered += 1
        guard answered <= Self.maximumAnswered else { throw .credentialRefused(answer.space) }
    }

    private func beginDelivery(of response: HTTPResponse) throws(HTTPError) {
        let announced = response.mayHaveBody(to: request.method) ? response["Content-Length"].flatMap { UInt64($0) } : 0
        if let limit = request.maximumResponseSize, let announced, announced > limit {
            throw .responseTooLarge(limit: limit, announced: announced)
        }
        if !request.acceptedTypes.isEmpty, response.status < 300, !response.isOfType(request.acceptedTypes) {
            throw .unexpectedType(seen: response["Content-Type"], wanted: request.acceptedTypes)
        }
        let delivery = Delivery(to: receiver, response, expected: announced) { [weak self, wakeEngine] in
            if let self { wakeEngine(self) }
        }
        let started = delivery.start { [self] refusal in
            // Everything else is known by then: the engine ends a delivery last.
            whenDone(refusal.map { .failure(.refused(by: $0)) } ?? result(.received(response)))
        }
        guard started else { throw .transport("no thread could be started") }
        self.delivery = delivery
    }

    /// Bytes of the body; how many were taken, or ``LibCurl/pause``.
    func take(body bytes: UnsafeRawBufferPointer) -> Int {
        var mustWait = false
        let taken = ending { () throws(HTTPError) in
            switch currentUse {
            case .receive:
                if let limit = request.maximumResponseSize, bodyCount + UInt64(bytes.count) > limit {
                    throw .responseTooLarge(limit: limit, announced: nil)
                }
                mustWait = !pace.allows() || delivery?.offer(bytes) == false
                if !mustWait { pace.count(bytes.count) }
            case .follow: isSkipping = bodyCount > Self.skippedSize
            case .keep:
                kept += bytes
                if kept.count > Self.keptSize {
                    throw .responseTooLarge(limit: UInt64(Self.keptSize), announced: nil)
                }
            }
        }
        guard taken, !isSkipping else { return -1 }
        guard !mustWait else {
            isPaused = true
            return LibCurl.pause
        }
        bodyCount += UInt64(bytes.count)
        return bytes.count
    }

    /// Begins to read what is sent.
    func startFeed() throws(HTTPError) {
        guard let body = request.body, !(body is BytesToSend) else { return }
        let feed = BodyFeed(body) { [weak self, wakeEngine] in
            if let self { wakeEngine(self) }
        }
        guard feed.start() else { throw .transport("no thread could be started") }
        self.feed = feed
    }

    /// Copies the next bytes of what is sent; how many, or ``LibCurl/pauseRead`` or ``LibCurl/abortRead``.
    func give(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard pace.allows() else {
            isPaused = true
            return LibCurl.pauseRead
        }
        switch feed?.give(into: buffer) ?? giveFromMemory(into: buffer) {
        case .bytes(let count):
            pace.count(count)
            return count
        case .notYet:
            isPaused = true
            return LibCurl.pauseRead
        case .failed(let error):
            failure = .refused(by: error)
            return LibCurl.abortRead
        }
    }

    private func giveFromMemory(into buffer: UnsafeMutableRawBufferPointer) -> BodyFeed.Given {
        guard let body = request.body as? BytesToSend else { return .bytes(0) }
        let count = body.read(into: buffer, at: bodyOffset)
        bodyOffset += UInt64(count)
        return .bytes(count)
    }

    func rewind(to offset: UInt64) {
        bodyOffset = offset
        feed?.rewind(to: offset)
    }

    private func ending(_ body: () throws(HTTPError) -> Void) -> Bool {
        do throws(HTTPError) {
            try body()
            return true
        } catch {
            failure = failure ?? error
            return false
        }
    }

    // MARK: what the engine calls

    /// What held it up may be over.
    func resume() {
        guard isPaused else { return }
        isPaused = false
        pace.resume()
        easy.resume()
    }

    /// libcurl has ended, in one way or another.
    func end(_ code: CURLcode) {
        feed?.end()
        let ended = code == CURLE_OK || isSkipping
        if failure == nil, !ended, !isRefusedByProxy(code) { failure = TransferFailure(self, bodyCount).error(code) }
        if failure == nil, ended, !isSkipping, wasCut { failure = .truncated(received: bodyCount, expected: nil) }
        switch (delivery, response) {
        // What came before a connection broke is whole and checked: a download goes on behind it.
        case (let delivery?, _): failure?.isTransient ?? true ? delivery.end() : delivery.abort()
        case (nil, let response?):
            let isRedirect = if case .follow = currentUse { true } else { false }
            whenDone(result(isRedirect ? .redirect(response) : .challenge(response, body: kept, server: server)))
        case (nil, nil): whenDone(.failure(failure ?? .connectionLost))
        }
    }

    func end(_ error: HTTPError) {
        feed?.end()
        failure = failure ?? error
        if let delivery { delivery.abort() } else { whenDone(.failure(error)) }
    }

    /// Whether a body that ends with the connection (RFC 9112 §6.3) has ended by somebody else's hand than the server's.
    private var wasCut: Bool {
        guard origin.isSecure, let response, response.version.hasPrefix("1."), response.mayHaveBody(to: request.method),
            announcedCount == nil, response["Transfer-Encoding"]?.lowercased().contains("chunked") != true
        else { return false }
        return connection?.wasClosed != true
    }

    private func isRefusedByProxy(_ code: CURLcode) -> Bool { isProxysOwn && response?.status == 407 }

    private func result(_ end: End) -> Result<End, HTTPError> { failure.map { .failure($0) } ?? .success(end) }

    var announcedCount: UInt64? { response?["Content-Length"].flatMap { UInt64($0) } }
    private var server: ServerIdentity? {
        guard let chain = connection?.chain, let verdict = connection?.verdict else { return nil }
        return ServerIdentity(chain: chain, verdict: verdict)
    }
    var hasHead: Bool { response != nil }
}
