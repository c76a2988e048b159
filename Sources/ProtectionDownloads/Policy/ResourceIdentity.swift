/// By what a resource is known to be the same one when the rest of it is asked for.
struct ResourceIdentity: Hashable, Sendable, Codable {
    /// A strong entity tag, with its quotes (RFC 9110 §8.8.3).
    var entityTag: String?
    /// Last-Modified, where it can be relied upon (RFC 9110 §8.8.2.2).
    var lastModified: String?
    /// In bytes.
    var length: UInt64?

    init(entityTag: String? = nil, lastModified: String? = nil, length: UInt64? = nil) {
        (self.entityTag, self.lastModified, self.length) = (entityTag, lastModified, length)
    }

    /// What a response that gives the whole resource, or a part of it, says of it.
    init(_ response: HTTPResponse, length: UInt64?) {
        entityTag = response["ETag"].flatMap { Self.isStrong($0) ? $0 : nil }
        self.length = length
        guard let text = response["Last-Modified"], let modified = Self.second(text),
            let date = response["Date"].flatMap(Self.second)
        else { return }
        // In the second in which it was answered it could be changed once more.
        if modified < date { lastModified = text }
    }

    /// Nil where the text names no exact second: two versions could have the same date if it has no seconds, and a date that does not end in GMT may
    /// be the writer's local time.
    private static func second(_ date: String) -> Int64? {
        guard date.hasSuffix(" GMT"), date.utf8.count(where: { $0 == UInt8(ascii: ":") }) == 2 else { return nil }
        return HTTPDate.seconds(date)
    }

    /// What goes into If-Range: nothing that is weak ever does, or bytes of two versions could be put together.
    var validator: String? { entityTag ?? lastModified }

    /// Whether a part that was asked for with ``validator`` could be one of another version.
    ///
    /// - Parameter total: the length of the whole, as that answer gives it.
    func differs(fromPart response: HTTPResponse, of total: UInt64?) -> Bool {
        if let length, let total, length != total { return true }
        // A part has the tag that the whole would have (RFC 9110 §15.3.7): without it the server may not know If-Range. The date
        // need not come again.
        if let entityTag { return response["ETag"] != entityTag }
        return response["Last-Modified"].map { $0 != lastModified } ?? false
    }

    private static func isStrong(_ tag: String) -> Bool {
        let bytes = Array(tag.utf8)
        guard bytes.count >= 2, bytes.first == 0x22, bytes.last == 0x22 else { return false }
        return bytes.dropFirst().dropLast().allSatisfy { $0 == 0x21 || 0x23...0x7E ~= $0 || $0 >= 0x80 }
    }
}
