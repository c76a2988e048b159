/// An X.509 certificate, by its DER bytes (RFC 5280 §4.1).
public struct Certificate: Hashable, Sendable {
    /// As it was presented or read, unchanged.
    public let der: [UInt8]

    package init(uncheckedDER der: [UInt8]) { self.der = der }
}
