/// A credential on its way to a space that has asked for it.
struct ChallengeAnswer: Sendable {
    let space: ProtectionSpace
    /// Of Digest, as the challenge says it.
    let algorithm: String?
    let credential: Credential
    /// Whether it is not from the store: then the store gets it once it was accepted.
    let isNew: Bool

    init(_ space: ProtectionSpace, algorithm: String? = nil, _ credential: Credential, isNew: Bool = false) {
        (self.space, self.algorithm, self.credential, self.isNew) = (space, algorithm, credential, isNew)
    }

    var method: AuthenticationMethod? { space.method }
    var identity: ClientIdentity? { if case .identity(let identity) = credential.content { identity } else { nil } }

    /// Whether libcurl may answer these: the challenge of the chosen method must be the chosen one.
    func check(_ challenges: [Challenge]) throws(HTTPError) {
        let scheme = method == .ntlm ? "ntlm" : "digest"
        guard let next = challenges.first(where: { $0.scheme.lowercased() == scheme }) else { return }
        guard next.method == method, next.realm == space.realm, method == .ntlm || next.digestAlgorithm == algorithm
        else {
            throw .spaceChanged(
                chosen: space,
                met: ProtectionSpace(
                    space.kind, host: space.host, port: space.port, realm: next.realm, method: next.method))
        }
    }
}
