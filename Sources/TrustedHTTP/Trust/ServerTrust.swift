/// Whom a connection may be made to: which certificates vouch for a server, and what else must be so.
///
/// One value holds for a whole connection; nothing is ever sent over a connection that was made under another one.
public struct ServerTrust: Hashable, Sendable {
    public init() {}
}
