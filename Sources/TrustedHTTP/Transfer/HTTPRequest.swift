public import FoundationEssentials

/// What is asked of a server.
public struct HTTPRequest: Sendable {
    public var method = "GET"
    public var url: URL
    /// In the order in which they are sent; a name may come more than once.
    public var headers: [HTTPHeader] = []
    public var body: HTTPBody?
    public var trust = ServerTrust()

    public init(_ url: URL) { self.url = url }
}

/// A field of a request's or a response's head (RFC 9110 §6.3).
public struct HTTPHeader: Hashable, Sendable {
    /// Compared without case.
    public let name: String
    public let value: String

    public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
}

/// What a request carries. It may be sent more than once: after a challenge, or over another connection.
public protocol HTTPBody: Sendable {
    /// In bytes.
    var length: UInt64 { get }
    /// Copies bytes from `offset` on into `buffer`.
    ///
    /// - Returns: how many; fewer than asked for only at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws -> Int
}
