import FoundationEssentials

/// Where a request goes: scheme, host and port (RFC 6454 §4). Credentials never pass from one to another.
package struct Origin: Hashable, Sendable {
    /// `https` or `http`.
    let scheme: String
    /// Lower case, without brackets and without a dot at its end.
    let host: String
    let port: Int

    /// nil if the host has anything but letters, digits, `-._` and, in an IPv6 address, `:`.
    init?(scheme: String, host: String, port: Int?) {
        var host = host.lowercased()
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        if host.hasSuffix(".") { host.removeLast() }
        let isAddress = host.contains(":")
        let isGood = host.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."): true
            case UInt8(ascii: "-"), UInt8(ascii: "_"): !isAddress
            case UInt8(ascii: ":"): isAddress
            default: false
            }
        }
        let port = port ?? (scheme == "http" ? 80 : 443)
        guard !host.isEmpty, isGood, 1...65_535 ~= port else { return nil }
        (self.scheme, self.host, self.port) = (scheme, host, port)
    }

    init?(_ url: URL) {
        guard let scheme = url.scheme?.lowercased(), ["http", "https"].contains(scheme), let host = url.host() else {
            return nil
        }
        self.init(scheme: scheme, host: host, port: url.port)
    }

    var isSecure: Bool { scheme == "https" }
}

extension Origin: CustomStringConvertible {
    package var description: String { "\(scheme)://\(Self.authority(host, port))" }

    /// `HOST:PORT`, an IPv6 address in brackets (RFC 3986 §3.2.2).
    package static func authority(_ host: String, _ port: Int) -> String {
        "\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }
}
