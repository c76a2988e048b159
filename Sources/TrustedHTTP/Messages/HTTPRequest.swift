public import FoundationEssentials

/// What is asked of a server, and on which terms.
public struct HTTPRequest: Sendable {
    /// `GET`, `POST` or another method, in capitals.
    public var method = "GET"
    /// `https`, or `http` where ``allowsPlainHTTP`` says so. Without user and password.
    public var url: URL
    /// In the order in which they are sent; a name may come more than once. What belongs to the connection (Host,
    /// Content-Length, Transfer-Encoding …) is not the caller's.
    public var headers: [HTTPHeader] = []
    /// What is sent; nil: nothing.
    public var body: HTTPBody?
    /// Which server certificates are accepted. Those that the system trusts, unless it is set.
    public var trust = ServerTrust()
    /// Which servers may learn our identity, and how. Without it a 401 is a response like any other.
    public var authentication: HTTPAuthentication?
    /// Shown to the server of ``url`` if it asks for one, and to no other one. See ``HTTPAuthentication`` for others.
    public var identity: ClientIdentity?
    /// None unless it is given: no variable of the environment is believed.
    public var proxy: HTTPProxy?

    /// `http://`, too. Credentials never go there.
    public var allowsPlainHTTP = false
    /// How many redirects are followed (RFC 9110 §15.4). With 0 a redirect is a response like any other.
    public var maximumRedirects = 10
    /// Whether a redirect to another origin (scheme, host and port) gets the body and all headers but credentials. Otherwise it gets
    /// only headers that say what is asked for, such as `Range` and `Accept`; and a redirect that asks for the body is an error.
    public var redirectsEverything = false
    /// Media types of which a successful response must be one (RFC 9110 §8.3), as `application/zip` or `image/*`: a page with a
    /// form to log in is then an error, and nothing that somebody takes for what was asked for. Empty: any.
    public var acceptedTypes: [String] = []
    /// In bytes of the body; a larger one ends the transfer, before it begins if the server says so.
    public var maximumResponseSize: UInt64?
    /// In bytes per second, of this request alone.
    public var bandwidthLimit: UInt64?
    /// Limits that this request shares with others. The slowest one counts.
    public var sharedLimits: [BandwidthLimit] = []
    /// How long it may take until the connection is there, TLS included.
    public var connectTimeout = Duration.seconds(30)
    /// Ends a transfer that stays below so many bytes per second for so long.
    public var stallLimit = StallLimit()

    /// Whether a redirect has dropped the body: to another origin, or by 301 or 302. A 303 within one origin does not count. Once set, it stays set.
    var hasLostBody = false

    /// A `GET` of that URL.
    public init(_ url: URL) { self.url = url }

    /// When a transfer counts as stalled. One that the receiver holds up does not.
    public struct StallLimit: Hashable, Sendable {
        /// 0 switches it off.
        public var bytesPerSecond = 1
        /// Parts of a second count as a whole one.
        public var duration = Duration.seconds(60)

        /// A limit in bytes and time.
        public init(bytesPerSecond: Int = 1, duration: Duration = .seconds(60)) {
            (self.bytesPerSecond, self.duration) = (bytesPerSecond, duration)
        }
    }
}

/// A field of a request's or a response's head (RFC 9110 §6.3).
public struct HTTPHeader: Hashable, Sendable {
    /// Compared without case.
    public let name: String
    /// Without CR, LF, NUL and other control characters.
    public let value: String

    /// A header; it is checked when the request is sent.
    public init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }

    func isNamed(_ other: String) -> Bool {
        name.utf8.count == other.utf8.count && name.lowercased() == other.lowercased()
    }
}

/// What a request carries. It may be sent more than once: after a challenge, or over another connection. Read by a thread of its
/// own, ahead of what is sent.
public protocol HTTPBody: Sendable {
    /// In bytes.
    var length: UInt64 { get }
    /// Copies bytes from `offset` on into `buffer`.
    ///
    /// - Returns: how many; 0 only at the end. If that comes before ``length`` bytes, the transfer ends.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws -> Int
}

/// Bytes in memory, to be sent.
public struct BytesToSend: HTTPBody {
    private let bytes: [UInt8]

    /// A body that is in memory.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// All bytes.
    public var length: UInt64 { UInt64(bytes.count) }

    /// Copies them.
    public func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) -> Int {
        bytes.withUnsafeBytes { bytes in
            let piece = bytes.dropFirst(Int(clamping: offset)).prefix(buffer.count)
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: piece))
            return piece.count
        }
    }
}
