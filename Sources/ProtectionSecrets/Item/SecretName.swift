/// What a secret is for. In one group there is one secret of a name.
///
/// Names are stored in clear and can be searched in every lock state; of a secret its value alone is secret.
public enum SecretName: Hashable, Sendable {
    /// A password or key of a program or service.
    case genericPassword(service: String, account: String)
    /// A password for a server.
    case internetPassword(SecretServer, account: String)
    /// A certificate and its private key, as PKCS #12 (RFC 7292).
    case identity(name: String)

    /// Which of the three.
    public enum Kind: UInt8, Sendable, Hashable, CaseIterable {
        /// A password or key of a program or service.
        case genericPassword = 1
        /// A password for a server.
        case internetPassword = 2
        /// A certificate and its private key.
        case identity = 3

        /// `generic`, `internet`, `identity`: in exports, and on the command line.
        package var word: String {
            switch self {
            case .genericPassword: "generic"
            case .internetPassword: "internet"
            case .identity: "identity"
            }
        }
    }

    /// Which of the three.
    public var kind: Kind {
        switch self {
        case .genericPassword: .genericPassword
        case .internetPassword: .internetPassword
        case .identity: .identity
        }
    }

    /// The longest attribute, in bytes of UTF-8.
    public static let maximumLength = 4096

    /// Refuses what cannot be told apart, or found again.
    func check() throws(SecretError) {
        let columns = SecretColumns(self)
        for (name, text) in columns.texts {
            guard text.utf8.count <= Self.maximumLength else {
                throw .invalid(reason: "\(name): longer than \(Self.maximumLength) bytes")
            }
            guard !text.utf8.contains(0) else { throw .invalid(reason: "\(name): it has a zero byte") }
        }
        switch self {
        case .genericPassword(let service, let account):
            if service.isEmpty && account.isEmpty { throw .invalid(reason: "a service or an account is needed") }
        case .internetPassword(let server, _):
            if server.host.isEmpty { throw .invalid(reason: "a host is needed") }
            if server.protocol.isEmpty { throw .invalid(reason: "a protocol is needed, as https") }
            guard server.protocol == server.protocol.lowercased(), server.host == server.host.lowercased() else {
                throw .invalid(reason: "protocol and host are in lower case")
            }
            guard 0...65_535 ~= server.port else { throw .invalid(reason: "port \(server.port): 0 to 65535") }
        case .identity(let name):
            if name.isEmpty { throw .invalid(reason: "a name is needed") }
        }
    }
}

/// A place on a server that asks for a password.
public struct SecretServer: Hashable, Sendable {
    /// In lower case, as `https`, `imap`, `ssh`.
    public let `protocol`: String
    /// In lower case.
    public let host: String
    /// 0: the one that the protocol has.
    public let port: Int
    /// As the server has it; empty: all of the server.
    public let path: String
    /// What the server calls it in its challenge (RFC 9110 §11.5); empty: any.
    public let realm: String

    /// - Parameters:
    ///   - protocol: in lower case or not.
    ///   - host: a name or an address, in lower case or not.
    ///   - port: 0 to 65,535; 0: the one that the protocol has.
    public init(_ protocol: String, host: String, port: Int = 0, path: String = "", realm: String = "") {
        (self.protocol, self.host, self.port) = (`protocol`.lowercased(), host.lowercased(), port)
        (self.path, self.realm) = (path, realm)
    }
}

/// A name as a row holds it: what a kind has not is empty.
struct SecretColumns: Hashable, Sendable {
    var kind: SecretName.Kind
    var service = "", account = "", `protocol` = "", host = "", path = "", realm = "", name = ""
    var port = 0

    init(_ secret: SecretName) {
        kind = secret.kind
        switch secret {
        case .genericPassword(let service, let account): (self.service, self.account) = (service, account)
        case .internetPassword(let server, let account):
            (`protocol`, host, port) = (server.protocol, server.host, server.port)
            (path, realm, self.account) = (server.path, server.realm, account)
        case .identity(let name): self.name = name
        }
    }

    /// In the order of FORMAT.md §2.15.
    var texts: [(String, String)] {
        [
            ("service", service), ("account", account), ("protocol", `protocol`), ("host", host), ("path", path),
            ("realm", realm), ("name", name),
        ]
    }

    /// The name; nil if there are attributes that its kind does not have.
    var secret: SecretName? {
        let (isOfServer, isOfService) = (kind == .internetPassword, kind == .genericPassword)
        guard isOfService || service.isEmpty, isOfServer || [`protocol`, host, path, realm].allSatisfy(\.isEmpty),
            isOfServer || port == 0, kind != .identity || account.isEmpty, kind == .identity || name.isEmpty
        else { return nil }
        return switch kind {
        case .genericPassword: .genericPassword(service: service, account: account)
        case .internetPassword: .internetPassword(SecretServer(stored: self), account: account)
        case .identity: .identity(name: name)
        }
    }
}

extension SecretServer {
    /// As it was stored: in lower case already.
    fileprivate init(stored columns: SecretColumns) {
        (self.protocol, host, port) = (columns.protocol, columns.host, columns.port)
        (path, realm) = (columns.path, columns.realm)
    }
}
