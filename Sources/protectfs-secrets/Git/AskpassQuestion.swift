import FoundationEssentials

/// What ssh, git and sudo ask, as far as it is about a secret. Pure.
///
///     Username for 'https://example.org':                    the account
///     Password for 'https://kim@example.org':                internet password
///     Enter passphrase for key '/home/kim/.ssh/id_ed25519':  generic password of service ssh-key and that path; so asks ssh
///     Enter passphrase for /home/kim/.ssh/id_ed25519:        the same; so asks ssh-add
///     kim@example.org's password:                            internet password, protocol ssh
///     [sudo] password for kim:                               generic password of service sudo and that account
///
/// Others choose a part of it: the author of a URL or a user's name, as the submodules of a repository do, and a server that asks
/// by way of ssh, which puts `(kim@example.org) ` before that. So a question is one of these from its first character to its last,
/// in one reading only, or about no secret. `Bad passphrase, try again` is none: the same answer would come for ever.
enum AskpassQuestion: Hashable {
    case account(SecretServer)
    case secret(SecretName)

    init?(_ question: String) {
        let text = question.trimmingPrefix { $0.isWhitespace }.reversed().trimmingPrefix { $0.isWhitespace }.reversed()
        self.init(trimmed: String(text))
    }

    private init?(trimmed text: String) {
        guard !text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else { return nil }
        if let url = Self.between(text, "Username for '", "':") {
            guard let (server, _) = Self.server(url) else { return nil }
            self = .account(server)
        } else if let url = Self.between(text, "Password for '", "':") {
            guard let (server, account) = Self.server(url) else { return nil }
            self = .secret(.internetPassword(server, account: account))
        } else if let key = Self.between(text, "Enter passphrase for key '", "':")
            ?? Self.between(text, "Enter passphrase for /", " (will confirm each use):").map({ "/" + $0 })
            ?? Self.between(text, "Enter passphrase for /", ":").map({ "/" + $0 })
        {
            self = .secret(.genericPassword(service: "ssh-key", account: key))
        } else if let account = Self.between(text, "[sudo] password for ", ":"), !account.contains(":") {
            self = .secret(.genericPassword(service: "sudo", account: account))
        } else if let place = Self.between(text, "", "'s password:"), let at = place.lastIndex(of: "@") {
            let (account, host) = (String(place[..<at]), String(place[place.index(after: at)...]))
            guard !host.isEmpty, !account.isEmpty, !account.hasPrefix("("),
                !place.contains(where: { " '".contains($0) })
            else { return nil }
            self = .secret(.internetPassword(SecretServer("ssh", host: host), account: account))
        } else {
            return nil
        }
    }

    private static func between(_ text: String, _ start: String, _ end: String) -> String? {
        guard text.hasPrefix(start), text.hasSuffix(end), text.utf8.count > start.utf8.count + end.utf8.count else {
            return nil
        }
        return String(text.dropFirst(start.count).dropLast(end.count))
    }

    /// `scheme://user@host:port/path`. Before 2.48 git showed user and path as they are: in `https://github.com?@example.org`, which
    /// others read as a place at github.com, `github.com?` is the user.
    private static func server(_ text: String) -> (SecretServer, account: String)? {
        guard let start = text.range(of: "://")?.upperBound, !text.contains(where: { "?#'\\ ".contains($0) }) else {
            return nil
        }
        let beforePath = text[start...].prefix { $0 != "/" }
        guard text.filter({ $0 == "@" }).count == beforePath.filter({ $0 == "@" }).count,
            beforePath.filter({ $0 == "@" }).count <= 1
        else { return nil }
        guard let url = URL(string: text), let scheme = url.scheme, !scheme.isEmpty, let host = url.host(),
            !host.isEmpty
        else { return nil }
        let path = String(url.path(percentEncoded: false).drop { $0 == "/" })
        let server = SecretServer(scheme, host: host, port: url.port ?? 0, path: path)
        return (server, url.user()?.removingPercentEncoding ?? "")
    }
}
