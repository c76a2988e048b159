/// Why a certificate, a pin or a ``ServerTrust`` cannot be made of what was given. Nothing was connected to yet.
@nonexhaustive
public enum TrustError: Error, Hashable {
    /// Not an X.509 certificate in DER (RFC 5280 §4.1), or one that two encodings would be read as.
    case malformedCertificate(why: String)
    /// The PEM text holds something else than certificates: `PRIVATE KEY`, for one.
    case notACertificate(label: String)
    /// The PEM text holds no certificate at all.
    case noCertificate
    /// The text of a pin is neither hexadecimal nor base 64.
    case malformedPin(String)
    /// A pin is a SHA-256: 32 bytes. This one has another number of them.
    case pinLength(bytes: Int, String)
    /// `.only([])` would trust nobody, and is a list that somebody forgot to fill.
    case noAnchors
    /// A group of pins without a pin could never match.
    case noPins
    /// The host check can be off only where pins say which server is meant (``ServerTrust/HostCheck/off``).
    case hostCheckNeedsPins
    /// Pins stand in for anchors only if one of them identifies the server's certificate, or a whole certificate of the chain.
    case pinsVouchForNobody
    /// Not a DNS name in A-labels (RFC 5890 §2.3.2.1) nor an IP address: an empty one, or `*.example.org`, or with a port.
    case malformedHostName(String)
    /// libcrypto failed at this: memory, mostly.
    case cryptographyLibrary(String)
}

extension TrustError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .malformedCertificate(let why): "not an X.509 certificate: \(why)"
        case .notACertificate(let label): "the PEM text holds a \(Escaped(label)), where certificates belong"
        case .noCertificate: "the text holds no PEM certificate"
        case .malformedPin(let text): "not a pin in hexadecimal or base 64: \(Escaped(text))"
        case .pinLength(let bytes, let text): "a pin is a SHA-256 of 32 bytes, not of \(bytes): \(Escaped(text))"
        case .noAnchors: "no anchors are given: nobody could be trusted"
        case .noPins: "a group of pins has no pin: nobody could match it"
        case .hostCheckNeedsPins: "without a host check a pin must say which server is meant"
        case .pinsVouchForNobody:
            "pins in place of anchors must be of the server's certificate or key, or of another certificate as a whole"
        case .malformedHostName(let name): "not the name or address of a host: \(Escaped(name))"
        case .cryptographyLibrary(let operation): "libcrypto failed at \(operation)"
        }
    }
}

/// Text of strangers, made fit for a terminal: printable ASCII, and not without end.
struct Escaped: CustomStringConvertible {
    let description: String

    /// - Parameter limit: so many characters are shown at most, and then an ellipsis.
    init(_ text: some StringProtocol, limit: Int = 200) {
        var shown = ""
        for scalar in text.unicodeScalars {
            guard shown.utf8.count < limit else {
                shown += "…"
                break
            }
            shown += 0x20..<0x7F ~= scalar.value ? String(scalar) : "\\u{\(String(scalar.value, radix: 16))}"
        }
        description = shown
    }
}
