import Synchronization

/// Makes requests, over connections that are checked before anything is sent.
///
/// Connections are shared by requests of one client whose trust and client certificate are equal, and by no others.
public final class HTTPClient: Sendable {
    private struct Terms: Hashable {
        let trust: ServerTrust
        let identity: ClientIdentity?
    }

    private let engines = Mutex<[Terms: TransferEngine]>([:])
    /// Where a request brings no memory of its own.
    private let failures: Result<SessionFailures, any Error>

    public init() { failures = Result { try SessionFailures() } }

    deinit { engines.withLock { $0.values.forEach { $0.retire() } } }

    /// Sends a request, and gives what comes to `receiver`. Cancelled when its task is.
    ///
    /// A status of 400 or more is a response like any other; what ``HTTPRequest/authentication`` answers is not given to the
    /// receiver, nor is a redirect that is followed.
    ///
    /// - Throws: ``HTTPError``. The receiver is not called any more then.
    public func transfer(_ request: HTTPRequest, to receiver: any HTTPReceiver) async throws(HTTPError) -> HTTPResponse {
        var (request, redirects) = (request, 0)
        var authentication = AuthenticationRun(request.authentication, failures)
        while true {
            let origin = try RequestCheck.origin(of: request)
            let (answers, identity) = try await authentication.begin(at: origin, request)
            let end: Exchange.End
            do throws(HTTPError) {
                end = try await exchange(request, to: origin, answers, identity, receiver, authentication.isThere)
            } catch {
                guard try await authentication.showsIdentity(after: error, at: origin) else { throw error }
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
                return try await Self.deliver(response, body, to: receiver)
            }
        }
    }

    /// One request, without redirects and challenges.
    private func exchange(
        _ request: HTTPRequest, to origin: Origin, _ answers: Exchange.Answers, _ identity: ClientIdentity?,
        _ receiver: any HTTPReceiver, _ keepsRefusals: Bool
    ) async throws(HTTPError) -> Exchange.End {
        guard !Task.isCancelled else { throw .cancelled }
        guard let easy = EasyHandle() else { throw .transport("libcurl cannot be used") }
        let terms = Terms(trust: request.trust, identity: identity)
        let current = Mutex<Cancellation?>(nil)
        let result: Result<Exchange.End, HTTPError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let engine = EngineBox()
                let exchange = Exchange(
                    request, to: origin, answers: answers, identity: identity, easy: easy, receiver: receiver,
                    use: { response in
                        if keepsRefusals, response.status == 401 || response.status == 407 { return .keep }
                        return request.maximumRedirects > 0 && Redirect.isOne(response) ? .follow : .receive
                    },
                    wakeEngine: { engine.value?.look(at: $0) },
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
        return try result.get()
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
                guard let engine = engines[terms] ?? TransferEngine() else { return false }
                engines[terms] = engine
                box.value = engine
                if engine.add(exchange) { return true }
                engines[terms] = nil  // it has been idle for long, and has ended
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
