import ProtectionKeys
import ProtectionSecrets

/// What git says of a credential. gitcredentials(7), git-credential(1) "INPUT/OUTPUT FORMAT".
struct GitCredential: ~Copyable {
    private(set) var username: String?
    private var scheme: String?
    private var host: String?
    private var path = ""
    private var password: SecretBytes?

    /// Reads lines `key=value`, up to an empty one or the end. Keys that are not known are ignored, as git asks.
    ///
    /// - Throws: status 64 for a line without `=`, and for a value that is not UTF-8: what it looks like could be another's.
    init(from descriptor: Int32) throws {
        var lines = SecretLineReader(longest: SecretStore.maximumValueLength + 64) { buffer in
            try DescriptorPiece.read(descriptor, into: buffer, "standard input")
        }
        while let line = try lines.next(), line.count > 0 {
            let count = line.count
            guard let end = line.withUnsafeBytes({ $0.firstIndex(of: UInt8(ascii: "=")) }) else {
                throw Failure(.usage, "a line of git's has no \"=\"")
            }
            func text(_ range: Range<Int>) -> String? {
                line.withUnsafeBytes { String(validating: UnsafeRawBufferPointer(rebasing: $0[range]), as: UTF8.self) }
            }
            let value = end + 1..<count
            func name() throws(Failure) -> String {
                guard let name = text(value) else { throw Failure(.usage, "a value of git's is not UTF-8") }
                return name
            }
            switch text(0..<end) {
            case "protocol": scheme = try name()
            case "host": host = try name()
            case "path": path = try name()
            case "username": username = try name()
            case "password": password = line.slice(value)
            default: break
            }
        }
    }

    /// Where it is for; nil if git does not say.
    var server: SecretServer? {
        guard let scheme, let host, !host.isEmpty else { return nil }
        let (name, port) = Self.split(host)
        return SecretServer(scheme, host: name, port: port, path: path)
    }

    /// `host:port`; an IPv6 address stands in brackets.
    private static func split(_ host: String) -> (String, Int) {
        guard let colon = host.lastIndex(of: ":"), let port = Int(host[host.index(after: colon)...]), 0...65_535 ~= port
        else { return (host, 0) }
        return (String(host[..<colon]), port)
    }

    /// nil: git says none.
    borrowing func withPassword<R>(_ body: (borrowing SecretBytes) throws -> R) rethrows -> R? {
        switch password {
        case .some(let password): try body(password)
        case nil: nil
        }
    }
}
