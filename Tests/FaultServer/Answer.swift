import Foundation

/// One answer of a ``FaultServer``, with what is to be wrong with it. Lengths are in bytes.
public struct Answer: Encodable, Sendable {
    /// Without one: 200, or what the request's Range and If-Range ask for (206, 416).
    public var status: Int?
    public var headers: [[String]] = []
    public var etag: String?
    public var lastModified: String?
    /// The body, where it is not ``length`` bytes of a pattern.
    public var bytes: Data?
    public var length: Int?
    /// Which pattern: another seed is another resource.
    public var seed = 1

    // What may be wrong

    /// Range is heard of.
    public var honoursRange = true
    /// Said instead of what is true.
    public var contentRange: String?
    /// Said instead of what is true; -1: none is said, the body ends with the connection.
    public var contentLength: Int?
    public var chunked = false
    /// How many bytes of the body are sent before the connection ends as ``end`` says.
    public var cutAfter: Int?
    /// The same, in bytes of the head.
    public var cutHeadAfter: Int?
    public var end: End?
    /// Sent after the body, as if it belonged there.
    public var extra: Int?
    /// How many bytes of the body are sent before ``FaultServer/release()``.
    public var holdAfter: Int?
    /// Seconds before the first byte.
    public var delay: Double?
    public var bytesPerSecond: Int?
    /// The connection ends after this answer, which says so.
    public var closes = false
    /// Answered before the body is read, in place of "100 Continue".
    public var refusesContinue = false
    /// Everything that is sent, head included.
    public var raw: Data?

    /// How a connection ends.
    public enum End: String, Encodable, Sendable {
        /// As it ought to.
        case close
        /// Without TLS's closing words.
        case abort
        /// By RST.
        case reset
        /// Not at all, until ``FaultServer/release()``.
        case stall
    }

    /// A resource: `length` bytes of a pattern.
    public init(length: Int, seed: Int = 1, etag: String? = "\"1\"") {
        (self.length, self.seed, self.etag) = (length, seed, etag)
    }

    /// A status, and a short text.
    public init(status: Int, _ text: String = "", headers: [[String]] = []) {
        (self.status, bytes, self.headers) = (status, Data(text.utf8), headers)
    }

    /// Sends on to another place.
    public static func redirect(to location: String, status: Int = 302) -> Answer {
        Answer(status: status, headers: [["Location", location]])
    }

    /// The same with a change, in one expression.
    public func with<Value>(_ field: WritableKeyPath<Answer, Value>, _ value: Value) -> Answer {
        var changed = self
        changed[keyPath: field] = value
        return changed
    }

    /// The bytes of the pattern that the server sends for `seed`.
    public static func pattern(seed: Int = 1, _ range: Range<Int>) -> [UInt8] {
        var state = UInt64(bitPattern: Int64(seed))
        let period = (0..<65_521).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 56)
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(range.count)
        while bytes.count < range.count {
            let start = (range.lowerBound + bytes.count) % period.count
            bytes += period[start...].prefix(range.count - bytes.count)
        }
        return bytes
    }
}
