/// What one request does about challenges, from the first to the last server that it meets.
///
/// The request goes out without credentials, but for a bearer token and a client certificate; a refusal is read, one space chosen,
/// and the request made again for just that space.
struct AuthenticationRun {
    private let terms: HTTPAuthentication?
    private let failures: Result<any FailedCredentials, any Error>
    private var server: ChallengeAnswer?
    private var proxy: ChallengeAnswer?
    private var identity: ChallengeAnswer?
    /// A space, without its method, and how often it was tried in vain.
    private var failureCounts: [ProtectionSpace: Int] = [:]
    private var wasTokenReplaced = false
    /// How often anything was answered.
    private var rounds = 0
    /// A handler that asks a person must not ask without end, nor one that asks a store that forgets refusals.
    private var maximumFailures: Int { terms?.handler == nil ? 1 : 10 }
    /// A server that invents a new realm each time must not ask without end either.
    private static let maximumRounds = 20

    init(_ terms: HTTPAuthentication?, _ failures: Result<SessionFailures, any Error>) {
        self.terms = terms
        self.failures = terms?.failures.map { .success($0) } ?? failures.map { $0 }
    }

    /// Whether anything is to be answered at all.
    var isThere: Bool { terms != nil }

    // MARK: before a request

    /// What goes along: answers to challenges, and what is shown without one.
    mutating func begin(
        at origin: Origin, _ request: HTTPRequest
    ) async throws(HTTPError) -> (Exchange.Answers, ClientIdentity?) {
        guard let terms, origin.isSecure else { return (Exchange.Answers(proxy: proxy), request.identity) }
        let bearer = ProtectionSpace(host: origin.host, port: origin.port, method: .bearer)
        if server == nil, let tokens = terms.tokens, failureCounts[Self.key(bearer)] == nil, isListed(bearer) {
            try await useToken(of: tokens, for: bearer, rejected: false)
        }
        let shown = ProtectionSpace(host: origin.host, port: origin.port, method: .clientCertificate)
        if identity == nil, request.identity == nil, terms.spaces.contains(where: { $0.matches(shown) }),
            let credential = try await proposal(for: shown), try await !isRefused(credential, in: shown)
        {
            identity = ChallengeAnswer(shown, credential)
        }
        return (Exchange.Answers(server: server, proxy: proxy), request.identity ?? identity?.identity)
    }

    /// A token is sent without a challenge: its realm is not known yet.
    private func isListed(_ bearer: ProtectionSpace) -> Bool {
        terms?.spaces.contains { entry in
            ProtectionSpace(entry.kind, host: entry.host, port: entry.port, method: entry.method).matches(bearer)
        } ?? false
    }

    private mutating func useToken(
        of tokens: any BearerTokens, for space: ProtectionSpace, rejected: Bool
    ) async throws(HTTPError) {
        let token = try await Self.asking(space) { try await tokens.token(for: space, rejected: rejected) }
        server = token.map { ChallengeAnswer(space, Credential(.token($0), persistence: .none)) }
    }

    /// A redirect: nothing that was meant for one place goes to another.
    mutating func leave(_ origin: Origin, _ request: HTTPRequest) {
        (server, identity, wasTokenReplaced) = (nil, nil, false)
    }

    // MARK: after a refusal

    /// Decides what is done about a 401 or 407.
    ///
    /// - Returns: whether the request is to be made again; otherwise the refusal is the response.
    mutating func answers(
        _ response: HTTPResponse, of origin: Origin, through httpProxy: HTTPProxy?, _ identity: ServerIdentity?
    ) async throws(HTTPError) -> Bool {
        let isOfProxy = response.status == 407
        guard let terms, !isOfProxy || httpProxy?.kind == .http else { return false }
        let place =
            isOfProxy
            ? ProtectionSpace(.proxy, host: httpProxy?.host ?? "", port: httpProxy?.port ?? 0)
            : ProtectionSpace(origin.isSecure ? .https : .http, host: origin.host, port: origin.port)
        let challenges = Challenge.all(in: response, named: isOfProxy ? "Proxy-Authenticate" : "WWW-Authenticate")
        try await noteFailure(of: isOfProxy ? proxy : server, challenges)
        guard isOfProxy || origin.isSecure else { throw .credentialsOverPlainHTTP(host: origin.host) }
        switch ChallengeDecision.of(challenges, at: place, listed: terms.spaces, hasTokens: terms.tokens != nil) {
        case .unchallenged: return false
        case .unsupported(let methods): throw .authenticationUnsupported(methods: methods, host: place.host)
        case .notListed(let met, let nearest): throw .spaceNotListed(met: met, nearest: nearest)
        case .candidates(let candidates):
            rounds += 1
            guard rounds <= Self.maximumRounds else { throw .credentialRefused(candidates[0].space) }
            let chosen = try await choose(candidates, isOfProxy ? nil : identity)
            if isOfProxy { proxy = chosen } else { server = chosen }
            return chosen != nil
        }
    }

    /// What was sent was refused, unless it was for another realm.
    private mutating func noteFailure(of answer: ChallengeAnswer?, _ challenges: [Challenge]) async throws(HTTPError) {
        guard let answer else { return }
        // Basic was sent at once: a refusal without a challenge is one of it.
        let isSameRealm =
            challenges.contains { $0.realm == answer.space.realm } || challenges.isEmpty && answer.method == .basic
        guard isSameRealm || answer.method == .bearer || answer.method == .ntlm else { return }
        failureCounts[Self.key(answer.space), default: 0] += 1
        // Tokens are the provider's own affair.
        if answer.method != .bearer { try await remember(answer) }
    }

    private func remember(_ answer: ChallengeAnswer) async throws(HTTPError) {
        try await Self.asking(answer.space) {
            try await failures.get().insert(answer.credential, in: answer.space)
        }
    }

    private mutating func choose(
        _ candidates: [ChallengeDecision.Candidate], _ server: ServerIdentity?
    ) async throws(HTTPError) -> ChallengeAnswer? {
        var refused: ProtectionSpace?
        for candidate in candidates {
            let space = candidate.space
            if space.method == .bearer, let tokens = terms?.tokens {
                guard !wasTokenReplaced else { throw .credentialRefused(space) }
                wasTokenReplaced = true
                try await useToken(of: tokens, for: space, rejected: failureCounts[Self.key(space)] != nil)
                if let answer = self.server { return answer }
                continue
            }
            let proposed = try await proposal(for: space)
            let hasFailed = proposed == nil ? false : try await isRefused(proposed, in: space)
            switch try await disposition(space, hasFailed ? nil : proposed, server) {
            case .use(let credential):
                guard credential.fits(space.method) else { throw .malformedCredential(space) }
                guard try await !isRefused(credential, in: space) else { throw .credentialRefused(space) }
                return ChallengeAnswer(
                    space, algorithm: candidate.challenge.digestAlgorithm, credential, isNew: true)
            case .performDefault:
                if let proposed, !hasFailed {
                    return ChallengeAnswer(space, algorithm: candidate.challenge.digestAlgorithm, proposed)
                }
                // Perhaps another method has a credential; what has failed is told if none has.
                if hasFailed { refused = refused ?? space }
            case .cancel: throw .authenticationCancelled(space)
            case .continueWithout: return nil
            case .rejectSpace:
                if space == candidates.last?.space { throw .spaceRejected(space) }
            }
        }
        if let refused { throw .credentialRefused(refused) }
        return nil
    }

    private func disposition(
        _ space: ProtectionSpace, _ proposed: Credential?, _ server: ServerIdentity?
    ) async throws(HTTPError) -> AuthenticationDisposition {
        let count = failureCounts[Self.key(space)] ?? 0
        guard count < maximumFailures else { throw .credentialRefused(space) }
        guard let handler = terms?.handler else { return .performDefault }
        return await handler.disposition(
            of: AuthenticationChallenge(
                space: space, previousFailureCount: count, proposedCredential: proposed, server: server))
    }

    // MARK: client certificates

    /// Whether, after this error, the request is made again with a client certificate that the handler gives.
    ///
    /// - Parameter isCertain: whether the server itself has said so. A connection that anybody on the way has broken is no reason
    ///   to remember a certificate as refused.
    mutating func showsIdentity(
        after error: HTTPError, isCertain: Bool, at origin: Origin
    ) async throws(HTTPError) -> Bool {
        let space = ProtectionSpace(host: origin.host, port: origin.port, method: .clientCertificate)
        guard let terms, terms.spaces.contains(where: { $0.matches(space) }) else { return false }
        switch error {
        case .clientCertificateRefused:
            guard let identity else { return false }
            failureCounts[Self.key(space), default: 0] += 1
            if isCertain { try await remember(identity) }
        case .clientCertificateRequired: break
        default: return false
        }
        switch try await disposition(space, nil, nil) {
        case .use(let credential):
            guard credential.fits(.clientCertificate) else { throw .malformedCredential(space) }
            guard try await !isRefused(credential, in: space) else { throw .credentialRefused(space) }
            identity = ChallengeAnswer(space, credential, isNew: true)
            return true
        case .cancel: throw .authenticationCancelled(space)
        case .rejectSpace: throw .spaceRejected(space)
        case .performDefault, .continueWithout: return false
        }
    }

    // MARK: stores

    /// The server has answered with something else than a refusal: what was used is kept as long as it says.
    func accepted() async throws(HTTPError) {
        guard let store = terms?.credentials else { return }
        for answer in [server, proxy, identity].compactMap({ $0 })
        where answer.isNew && answer.credential.persistence != .none {
            try await Self.asking(answer.space) { try await store.keep(answer.credential, for: answer.space) }
        }
    }

    private func proposal(for space: ProtectionSpace) async throws(HTTPError) -> Credential? {
        guard let store = terms?.credentials else { return nil }
        let credential = try await Self.asking(space) { try await store.credential(for: space) }
        return credential?.fits(space.method) == true ? credential : nil
    }

    private func isRefused(_ credential: Credential?, in space: ProtectionSpace) async throws(HTTPError) -> Bool {
        guard let credential else { return false }
        return try await Self.asking(space) { try await failures.get().contains(credential, in: space) }
    }

    private static func asking<Value>(
        _ space: ProtectionSpace, _ body: () async throws -> Value
    ) async throws(HTTPError) -> Value {
        do { return try await body() } catch { throw .credentialsUnavailable(space, error) }
    }

    private static func key(_ space: ProtectionSpace) -> ProtectionSpace {
        ProtectionSpace(
            space.kind, host: space.host, port: space.port, realm: space.method == .bearer ? nil : space.realm)
    }
}
