/// What ``ServerTrust`` says of the certificates that a server has presented.
public enum TrustVerdict: Hashable, Sendable {
    /// A pin or an exception of the user says so, beside what the anchors say.
    case explicitlyTrusted
    /// An anchor vouches for it, and nobody said more.
    case trusted
}
