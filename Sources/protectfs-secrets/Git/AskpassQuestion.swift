import FoundationEssentials

/// What ssh, git and sudo ask, as far as it is about a secret. Pure.
///
///     Username for 'https://example.org':                    the account
///     Password for 'https://kim@example.org':                internet password
///     Enter passphrase for key '/home/kim/.ssh/id_ed25519':  generic password of service ssh-key and that path (ssh)
///     Enter passphrase for /home/kim/.ssh/id_ed25519:        the same (ssh-add)
///     kim@example.org's password:                            internet password, protocol ssh
///     [sudo] password for kim:                               generic password of service sudo and that account
enum AskpassQuestion: Hashable {
    case account(SecretServer)
    case secret(SecretName)

    init?(_ question: String) {
        let text = question.trimmingPrefix { $0.isWhitespace }
        if let url = Self.quoted(text, after: "Username for ") {
            guard let (server, _) = Self.server(url) else { return nil }
            self = .account(server)
        } else if let url = Self.quoted(text, after: "Password for ") {
            guard let (server, account) = Self.server(url) else { return nil }
            self = .secret(.internetPassword(server, account: account))
        } else if let key = Self.quoted(text, after: "Enter passphrase for key ")
            ?? Self.between(text, "Enter passphrase for /", ":").map({
                "/" + $0.replacing(" (will confirm each use)", with: "")
            })
        {
            self = .secret(.genericPassword(service: "ssh-key", account: key))
        } else if let account = Self.between(text, "[sudo] password for ", ":") {
            self = .secret(.genericPassword(service: "sudo", account: account))
        } else if let end = text.range(of: "'s password:"), let at = text[..<end.lowerBound].lastIndex(of: "@") {
            let host = String(text[text.index(after: at)..<end.lowerBound])
            let account = text[..<at]
            // What a server itself asks has "(kim@host) " before it, and must not be taken for a question of ssh's own.
            guard !host.isEmpty, !account.isEmpty, !account.contains(where: { $0 == "(" || $0.isWhitespace }) else {
                return nil
            }
            self = .secret(.internetPassword(SecretServer("ssh", host: host), account: String(account)))
        } else {
            return nil
        }
    }

    private static func quoted(_ text: Substring, after words: String) -> String? {
        guard text.hasPrefix(words + "'"), let end = text.lastIndex(of: "'") else { return nil }
        let start = text.index(text.startIndex, offsetBy: words.count + 1)
        return start < end ? String(text[start..<end]) : nil
    }

    private static func between(_ text: Substring, _ words: String, _ end: Character) -> String? {
        guard text.hasPrefix(words), let last = text.lastIndex(of: end) else { return nil }
        let start = text.index(text.startIndex, offsetBy: words.count)
        return start < last ? String(text[start..<last]) : nil
    }

    private static func server(_ url: String) -> (SecretServer, account: String)? {
        guard let url = URL(string: url), let scheme = url.scheme, let host = url.host(), !host.isEmpty else {
            return nil
        }
        let path = String(url.path().drop { $0 == "/" })
        let server = SecretServer(scheme, host: host, port: url.port ?? 0, path: path)
        return (server, url.user()?.removingPercentEncoding ?? "")
    }
}
