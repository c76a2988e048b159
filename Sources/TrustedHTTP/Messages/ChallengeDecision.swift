/// Which challenges of a response may be answered, the strongest first.
enum ChallengeDecision: Equatable {
    /// Never empty.
    case candidates([Candidate])
    /// Nothing that this library can do; the names of the methods.
    case unsupported([String])
    case notListed(met: ProtectionSpace, nearest: ProtectionSpace?)
    /// A 401 without a challenge.
    case unchallenged

    /// So many are looked at, and so many methods are told: each one may be a question to a store, or to a person.
    private static let most = 8

    struct Candidate: Equatable {
        let challenge: Challenge
        let space: ProtectionSpace
    }

    /// - Parameters:
    ///   - place: of whom the challenges are; realm and method are theirs.
    ///   - hasTokens: whether bearer tokens can be had.
    static func of(
        _ challenges: [Challenge], at place: ProtectionSpace, listed: [ProtectionSpace], hasTokens: Bool
    ) -> ChallengeDecision {
        guard !challenges.isEmpty else { return .unchallenged }
        // libcurl answers the first one of Digest, whatever the others are.
        let firstDigest = challenges.first { $0.scheme.lowercased() == "digest" }
        let known = challenges.compactMap { challenge -> Candidate? in
            guard let method = challenge.method, method != .digest || challenge == firstDigest,
                method != .bearer || hasTokens
            else { return nil }
            return Candidate(
                challenge: challenge,
                space: ProtectionSpace(
                    place.kind, host: place.host, port: place.port, realm: challenge.realm, method: method))
        }
        guard !known.isEmpty else { return .unsupported(challenges.prefix(most).map(\.scheme)) }
        let allowed = known.filter { candidate in
            listed.contains { entry in
                entry.matches(candidate.space)
                    && (candidate.space.kind == .https || candidate.space.method != .basic || entry.method == .basic)
            }
        }
        guard !allowed.isEmpty else {
            return .notListed(met: known[0].space, nearest: .nearest(to: known[0].space, in: listed))
        }
        return .candidates(Array(allowed.sorted { strength($0.challenge) > strength($1.challenge) }.prefix(most)))
    }

    private static func strength(_ challenge: Challenge) -> Int {
        switch challenge.method {
        case .bearer: 5
        case .digest where challenge.digestAlgorithm?.hasPrefix("SHA-256") == true: 4
        case .digest: 3
        case .ntlm: 2
        default: 1
        }
    }
}
