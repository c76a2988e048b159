import FoundationEssentials

/// Takes the head of a response line by line, as libcurl hands it on. Bounded: whatever a server sends, this much is kept.
struct ResponseHead {
    /// In bytes, and in lines.
    static let (maximumSize, maximumCount) = (256 << 10, 500)
    /// Heads of one exchange: interim ones, those that libcurl has answered, and the last.
    static let maximumHeads = 100

    private(set) var status = 0
    private(set) var version = ""
    private(set) var headers: [HTTPHeader] = []
    private var (size, lines) = (0, 0)
    private var isComplete = false
    private var heads = 0

    /// What a line means.
    enum Step: Equatable {
        case more
        /// The head is there, or that of an interim response (1xx).
        case complete
    }

    /// - Parameter line: with its end. A status line begins a new head.
    mutating func take(_ line: UnsafeRawBufferPointer) throws(HTTPError) -> Step {
        var text = line[...]
        while let last = text.last, last == 0x0A || last == 0x0D { text.removeLast() }
        if text.starts(with: "HTTP/".utf8) {
            try begin(text)
            return .more
        }
        guard status != 0 else { throw .malformedResponse("it has no status line") }
        guard !text.isEmpty else {
            isComplete = true
            return .complete
        }
        (size, lines) = (size + text.count, lines + 1)
        guard size <= Self.maximumSize, lines <= Self.maximumCount else {
            throw .malformedResponse("its head is larger than \(Self.maximumSize) bytes or \(Self.maximumCount) lines")
        }
        guard !text.contains(0) else { throw .malformedResponse("a field has a zero byte") }
        try add(text)
        return .more
    }

    private mutating func begin(_ text: Slice<UnsafeRawBufferPointer>) throws(HTTPError) {
        // In the middle of a head libcurl takes it for a field, and goes by the first one.
        guard status == 0 || isComplete else { throw .malformedResponse("it has a status line among its fields") }
        guard heads < Self.maximumHeads else { throw .malformedResponse("it has more than \(heads) heads") }
        let parts = text.split(separator: 0x20, maxSplits: 2)
        guard parts.count >= 2, parts[1].count == 3, let status = Int(String(decoding: parts[1], as: UTF8.self)),
            status >= 100
        else { throw .malformedResponse("its status line has no status") }
        (self, heads) = (ResponseHead(), heads + 1)
        self.status = status
        version = String(decoding: parts[0].dropFirst(5), as: UTF8.self)
    }

    private mutating func add(_ text: Slice<UnsafeRawBufferPointer>) throws(HTTPError) {
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        if let first = text.first, isSpace(first) {  // a folded line (RFC 9112 §5.2)
            guard let last = headers.popLast() else { throw .malformedResponse("it begins with a folded line") }
            // libcurl reads the first line of it alone.
            guard !last.name.lowercased().hasSuffix("-authenticate") else {
                throw .malformedResponse("a challenge in folded lines")
            }
            let rest = String(decoding: text.drop(while: isSpace), as: UTF8.self)
            headers.append(HTTPHeader(last.name, last.value + " " + rest))
            return
        }
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")) else {
            throw .malformedResponse("a line of its head has no colon")
        }
        var value = text[text.index(after: colon)...].drop(while: isSpace)
        while let last = value.last, isSpace(last) { value.removeLast() }
        headers.append(
            HTTPHeader(String(decoding: text[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self)))
    }

    func response(to request: HTTPRequest) -> HTTPResponse {
        HTTPResponse(
            status: status, headers: headers, url: request.url, version: version,
            acknowledgesBody: !request.hasLostBody)
    }
}
