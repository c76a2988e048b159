import Glibc

/// What a certificate must be for: a name or an address (RFC 9525 §6.2, RFC 6125 §6.2).
enum HostName: Hashable, Sendable {
    /// Lower case, A-labels, without a dot at its end.
    case name(String)
    /// 4 or 16 bytes.
    case address([UInt8])

    /// - Parameter text: as in a URL, with the brackets of an IPv6 address or without; a zone (RFC 6874) is left out, because no
    ///   certificate has one. nil if it is neither a name nor an address: `127.0.0.1.`, or `.example.org`, which libcrypto would take for
    ///   every host of that domain, is not one.
    init?(_ text: String) {
        var text = Substring(text)
        if text.hasPrefix("["), text.hasSuffix("]") { text = text.dropFirst().dropLast() }
        if let address = Self.address(text) {
            self = .address(address)
            return
        }
        if text.hasSuffix(".") {
            text = text.dropLast()
            // `127.0.0.1.` is an address to some and a name to others.
            if Self.address(text) != nil { return nil }
        }
        let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard text.utf8.count <= 253, labels.allSatisfy({ 1...63 ~= $0.count && $0.allSatisfy(Self.isOfLabel) }) else {
            return nil
        }
        self = .name(text.lowercased())
    }

    private static func isOfLabel(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }

    /// inet_pton(3).
    private static func address(_ text: Substring) -> [UInt8]? {
        for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
            var bytes = [UInt8](repeating: 0, count: count)
            let bare = family == AF_INET6 ? String(text.prefix { $0 != "%" }) : String(text)
            if !bare.utf8.contains(0), inet_pton(family, bare, &bytes) == 1 { return bytes }
        }
        return nil
    }
}
