/// What ``ServerTrust`` says of the certificates that a server has presented.
///
/// It lists all faults, not only the first: a person who excepts one fault should know of the others.
public enum TrustVerdict: Hashable, Sendable {
    /// A pin or an exception of the user says so, beside what the anchors say.
    case explicitlyTrusted
    /// An anchor vouches for it, and nobody said more.
    case trusted
    /// The certificates may be fine, but somebody has said *not this one*.
    case denied(by: TrustDenier)
    /// Wrong, but a person who knows the server may except just these (``TrustException``).
    case recoverable([TrustProblem<RecoverableReason>])
    /// Wrong, and nobody can except it.
    ///
    /// - Parameter beside: what could be excepted, if it stood alone.
    case fatal([TrustProblem<FatalReason>], beside: [TrustProblem<RecoverableReason>])
    /// Nothing is known: there was nothing to look at, or looking failed.
    case evaluationFailed(TrustEvaluationFailure)

    /// Whether anything may be sent.
    public var allowsConnection: Bool {
        switch self {
        case .explicitlyTrusted, .trusted: true
        case .denied, .recoverable, .fatal, .evaluationFailed: false
        }
    }
}

/// One thing that is wrong with one certificate.
public struct TrustProblem<Reason: Hashable & Sendable>: Hashable, Sendable {
    /// What is wrong.
    public let reason: Reason
    /// The one that it is wrong with. A root that is unknown and an issuer that is missing are problems of the server's own
    /// certificate: it is the one that nobody vouches for.
    public let certificate: Certificate
    /// What is so.
    public let seen: String
    /// What should be so.
    public let wanted: String
}

/// The source that says that a certificate is not to be trusted.
public enum TrustDenier: Hashable, Sendable {
    /// It is on the list that ``ServerTrust`` was given.
    case distrusted(Certificate)
    /// The system's store of anchors rejects it.
    case system(Certificate)
}

/// Why nothing is known of a server's certificates.
public enum TrustEvaluationFailure: Hashable, Sendable {
    /// The server has presented none.
    case noCertificate
    /// One of those that it has presented cannot be read.
    case malformedCertificate(why: String)
    /// The host that was asked for has neither a name nor an address.
    case malformedHostName(String)
    /// libcrypto failed at this: memory, mostly.
    case cryptographyLibrary(String)
}

extension TrustVerdict: CustomStringConvertible {
    /// Lines for a message: what was seen, and what was wanted.
    public var description: String {
        switch self {
        case .explicitlyTrusted: "explicitly trusted"
        case .trusted: "trusted"
        case .denied(.distrusted(let certificate)): "distrusted by you: \(certificate)"
        case .denied(.system(let certificate)): "rejected by the system's anchors: \(certificate)"
        case .recoverable(let problems): problems.map(\.description).joined(separator: "\n")
        case .fatal(let problems, let beside):
            (problems.map(\.description) + beside.map(\.description)).joined(separator: "\n")
        case .evaluationFailed(.noCertificate): "the server has presented no certificate"
        case .evaluationFailed(.malformedCertificate(let why)): "a certificate of the server cannot be read: \(why)"
        case .evaluationFailed(.malformedHostName(let name)): "not the name or address of a host: \(Escaped(name))"
        case .evaluationFailed(.cryptographyLibrary(let operation)): "libcrypto failed at \(operation)"
        }
    }
}

extension TrustProblem: CustomStringConvertible where Reason: CustomStringConvertible {
    public var description: String { "\(reason): seen \(seen); wanted \(wanted); in \(certificate)" }
}
