import Synchronization

/// Makes requests, over connections that are checked before anything is sent.
///
/// Connections are shared by requests of one client whose trust and client certificate are equal, and by no others. A request
/// that carries a password or a token itself goes over HTTP/1.1.
public final class HTTPClient: Sendable {
    private struct Terms: Hashable {
        let trust: ServerTrust
        let identity: ClientIdentity?
        let speaksHTTP1: Bool
    }

    private let engines = Mutex<[Terms: TransferEngine]>([:])
    /// Where a request brings no memory of its own.
    private let failures: Result<SessionFailures, any Error>

    /// A client with connections, and memory of refused credentials, of its own.
    public init() { failures = Result { try SessionFailures() } }

    deinit {
        for engine in engines.withLock({ $0.values.map { $0 } }) { engine.retire() }
    }

    /// Sends a request, and gives what comes to `receiver`. Cancelled when its task is.
    ///
    /// A status of 400 or more is a response like any other; what ``HTTPRequest/authentication`` answers is not given to the
    /// receiver, nor is a redirect that is followed.
    ///
    /// - Throws: ``HTTPError``. The receiver is not called any more then.
    public func transfer(_ request: HTTPRequest, to receiver: any HTTPReceiver) async throws(HTTPError) -> HTTPResponse
    {
        var (request, redirects) = (request, 0)
        var authentication = AuthenticationRun(request.authentication, failures)
        while true {
            let origin = try RequestCheck.origin(of: request)
            let (answers, identity) = try await authentication.begin(at: origin, request)
            let plan = Exchange.Plan(
                request: request, origin: origin, answers: answers, identity: identity,
                keepsRefusals: authentication.isThere)
            let handshake = TLSHandshake(plan)
            let end: Exchange.End
            do throws(HTTPError) {
                end = try await run(plan, handshake, receiver).get()
            } catch {
                let isCertain = handshake.hasRefusedIdentity
                guard try await authentication.showsIdentity(after: error, isCertain: isCertain, at: origin) else {
                    throw error
                }
                continue
            }
            switch end {
            case .received(let response):
                try await authentication.accepted()
                return response
            case .redirect(let response):
                try await authentication.accepted()
                redirects += 1
                request = try Redirect.next(request, after: response, count: redirects)
                authentication.leave(origin, request)
            case .challenge(let response, let body, let server):
                if try await authentication.answers(response, of: origin, through: request.proxy, server) { continue }
                if response.status == 407, origin.isSecure, let proxy = request.proxy {
                    throw .proxyRefused(proxy, status: 407)
                }
                return try await Self.deliver(response, body, to: receiver)
            }
        }
    }

    /// What the server shows in a handshake, over a connection of its own.
    func handshake(_ request: HTTPRequest, to origin: Origin) async -> (HTTPError?, TLSHandshake) {
        let plan = Exchange.Plan(request: request, origin: origin, connectsOnly: true)
        let handshake = TLSHandshake(plan)
        let result = await run(plan, handshake, NobodyReceives())
        return (result.failure, handshake)
    }

    /// One request, without redirects and challenges.
    private func run(
        _ plan: Exchange.Plan, _ handshake: TLSHandshake, _ receiver: any HTTPReceiver
    ) async -> Result<Exchange.End, HTTPError> {
        guard !Task.isCancelled else { return .failure(.cancelled) }
        guard let easy = EasyHandle() else { return .failure(.transport("libcurl cannot be used")) }
        let terms = Terms(
            trust: plan.request.trust, identity: plan.identity, speaksHTTP1: plan.speaksHTTP1)
        let current = Mutex<Cancellation?>(nil)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let engine = EngineBox()
                let exchange = Exchange(
                    plan, handshake, easy, receiver: receiver, wakeEngine: { engine.value?.look(at: $0) },
                    whenDone: { continuation.resume(returning: $0) })
                guard add(exchange, terms, engine) else {
                    continuation.resume(returning: .failure(.transport("no thread could be started")))
                    return
                }
                current.withLock { $0 = Cancellation(engine: engine, exchange: exchange) }
                if Task.isCancelled { engine.value?.cancel(exchange) }
            }
        } onCancel: {
            current.withLock { $0 }.map { $0.engine.value?.cancel($0.exchange) }
        }
    }

    private struct Cancellation: Sendable {
        let engine: EngineBox
        let exchange: Exchange
    }

    /// The engine of an exchange, which is known before the exchange is added.
    private final class EngineBox: Sendable {
        private let engine = Mutex<TransferEngine?>(nil)
        var value: TransferEngine? {
            get { engine.withLock { $0 } }
            set { engine.withLock { $0 = newValue } }
        }
    }

    private func add(_ exchange: Exchange, _ terms: Terms, _ box: EngineBox) -> Bool {
        engines.withLock { engines in
            while true {
                guard let engine = engines[terms] ?? makeEngine(terms) else { return false }
                engines[terms] = engine
                box.value = engine
                if engine.add(exchange) { return true }
                engines[terms] = nil  // it is just ending
            }
        }
    }

    private func makeEngine(_ terms: Terms) -> TransferEngine? {
        TransferEngine { [weak self] ended in
            self?.engines.withLock { engines in
                if engines[terms] === ended { engines[terms] = nil }
            }
        }
    }

    /// A refusal that nothing is done about.
    private static func deliver(
        _ response: HTTPResponse, _ body: [UInt8], to receiver: any HTTPReceiver
    ) async throws(HTTPError) -> HTTPResponse {
        let failure: (any Error)? = await withCheckedContinuation { continuation in
            let started = DetachedThread.start {
                do {
                    try receiver.begin(response)
                    if !body.isEmpty { try body.withUnsafeBytes { try receiver.receive($0) } }
                    continuation.resume(returning: nil)
                } catch {
                    continuation.resume(returning: error)
                }
            }
            if !started { continuation.resume(returning: HTTPError.transport("no thread could be started")) }
        }
        if let failure { throw .refused(by: failure) }
        return response
    }
}

extension TLSHandshake {
    convenience init(_ plan: Exchange.Plan) {
        self.init(
            trust: plan.request.trust, host: plan.origin.host, port: plan.origin.port, identity: plan.identity)
    }
}

private final class NobodyReceives: HTTPReceiver {
    func begin(_ response: HTTPResponse) {}
    func receive(_ bytes: UnsafeRawBufferPointer) {}
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
