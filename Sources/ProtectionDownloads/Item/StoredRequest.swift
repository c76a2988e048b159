import DataProtection
import FoundationEssentials

/// A request as it is sealed in the list: JSON. A field that a later version adds is optional.
struct StoredRequest: Codable {
    struct Header: Codable {
        let name, value: String
    }

    let url: String
    let target: [UInt8]
    let headers: [Header]
    let protectionClass: UInt8
    let whileLocked: DownloadRequest.WhileLocked
    let replacesExisting: Bool
    let checks: [StoredCheck]
    let maximumLength: UInt64?
    let priority: Int
    let retry: RetryPolicy
    let allowsPlainHTTP: Bool
    let name: String?
    let trust: ServerTrust.Form
    let spaces: [StoredSpace]
    let bandwidthLimit: UInt64?
    let proxy: String?
    let acceptedTypes: [String]?
    let upload: DownloadRequest.Upload?
    let fileID: [UInt8]?
    let marked: StoredMark?

    init(_ request: DownloadRequest, _ marked: StoredMark? = nil) {
        self.marked = marked
        trust = ServerTrust.Form(request.trust)
        (spaces, bandwidthLimit) = (request.spaces.map(StoredSpace.init), request.bandwidthLimit)
        proxy = request.proxy?.description
        (acceptedTypes, upload, fileID) = (request.acceptedTypes, request.upload, request.fileID)
        url = request.url.absoluteString
        target = request.target.bytes
        headers = request.headers.map { Header(name: $0.name, value: $0.value) }
        protectionClass = request.protectionClass.rawValue
        (whileLocked, replacesExisting) = (request.whileLocked, request.replacesExisting)
        checks = request.checks.map(StoredCheck.init)
        (maximumLength, priority) = (request.maximumLength, request.priority)
        (retry, allowsPlainHTTP, name) = (request.retry, request.allowsPlainHTTP, request.name)
    }

    /// Nil if it makes no sense: sealed by something else than this.
    var request: DownloadRequest? {
        guard let url = URL(string: url), !target.contains(0),
            let protectionClass = ProtectionClass(rawValue: protectionClass), let trust = KnownTrusts.trust(trust),
            let spaces = try? spaces.map({ try $0.space() }), let checks = try? checks.map({ try $0.check() })
        else { return nil }
        var request = DownloadRequest(url, FilePath(bytes: target), upload)
        (request.acceptedTypes, request.fileID) = (acceptedTypes ?? [], fileID)
        request.headers = headers.map { HTTPHeader($0.name, $0.value) }
        (request.protectionClass, request.trust, request.spaces) = (protectionClass, trust, spaces)
        request.bandwidthLimit = bandwidthLimit
        if let proxy {
            guard let known = try? HTTPProxy(proxy) else { return nil }
            request.proxy = known
        }
        (request.whileLocked, request.replacesExisting) = (whileLocked, replacesExisting)
        (request.checks, request.maximumLength, request.priority) = (checks, maximumLength, priority)
        (request.retry, request.allowsPlainHTTP, request.name) = (retry, allowsPlainHTTP, name)
        return request
    }
}

/// An upload as it was when it was added by somebody unlocked: while it is there, nothing else of the request counts.
struct StoredMark: Codable {
    /// The JSON of the request, without this.
    let request: String
    /// Of class key A.
    let generation: UInt32
    /// Hexadecimal: an HMAC over the download's id and ``request``.
    let tag: String
}

/// A request that makes no sense: sealed by something else than this.
struct MalformedRequest: Error {}

/// An ``IntegrityCheck`` as it is sealed with a request.
struct StoredCheck: Codable {
    /// `length`, `hmac-sha256`, or the name of a digest.
    let kind: String
    let length: UInt64?
    /// Hexadecimal.
    let value, keyID: String?

    init(_ check: IntegrityCheck) {
        switch check {
        case .length(let count): (kind, length, value, keyID) = ("length", count, nil, nil)
        case .digest(let algorithm, let digest):
            (kind, length, value, keyID) = (algorithm.rawValue, nil, Hexadecimal.text(digest), nil)
        case .hmacSHA256(let id, let tag):
            (kind, length, value, keyID) = ("hmac-sha256", nil, Hexadecimal.text(tag), id)
        }
    }

    func check() throws -> IntegrityCheck {
        let bytes = value.flatMap(Hexadecimal.bytes)
        let check: IntegrityCheck? =
            switch kind {
            case "length": length.map { .length($0) }
            case "hmac-sha256": bytes.flatMap { tag in keyID.map { .hmacSHA256(keyID: $0, tag: tag) } }
            default: bytes.flatMap { digest in RunningDigest.Algorithm(rawValue: kind).map { .digest($0, digest) } }
            }
        guard let check else { throw MalformedRequest() }
        try check.check()
        return check
    }
}
