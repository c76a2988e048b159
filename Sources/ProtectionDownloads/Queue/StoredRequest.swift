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
    let checks: [IntegrityCheck]
    let maximumLength: UInt64?
    let priority: Int
    let retry: RetryPolicy
    let allowsPlainHTTP: Bool
    let name: String?
    let trust: StoredTrust
    let spaces: [StoredSpace]
    let bandwidthLimit: UInt64?
    let proxy: String?
    let acceptedTypes: [String]?
    let upload: DownloadRequest.Upload?

    init(_ request: DownloadRequest) {
        trust = StoredTrust(request.trust)
        (spaces, bandwidthLimit) = (request.spaces.map(StoredSpace.init), request.bandwidthLimit)
        proxy = request.proxy.map(Self.text)
        (acceptedTypes, upload) = (request.acceptedTypes, request.upload)
        url = request.url.absoluteString
        target = request.target.bytes
        headers = request.headers.map { Header(name: $0.name, value: $0.value) }
        protectionClass = request.protectionClass.rawValue
        (whileLocked, replacesExisting) = (request.whileLocked, request.replacesExisting)
        (checks, maximumLength, priority) = (request.checks, request.maximumLength, request.priority)
        (retry, allowsPlainHTTP, name) = (request.retry, request.allowsPlainHTTP, request.name)
    }

    /// As `HTTPProxy` reads it.
    private static func text(_ proxy: HTTPProxy) -> String {
        "\(proxy.kind.rawValue)://\(proxy.host.contains(":") ? "[\(proxy.host)]" : proxy.host):\(proxy.port)"
    }

    /// Nil if it makes no sense: sealed by something else than this.
    var request: DownloadRequest? {
        guard let url = URL(string: url), !target.contains(0),
            let protectionClass = ProtectionClass(rawValue: protectionClass), let trust = KnownTrusts.trust(trust),
            let spaces = try? spaces.map({ try $0.space() })
        else { return nil }
        var request = DownloadRequest(url, FilePath(bytes: target), upload)
        request.acceptedTypes = acceptedTypes ?? []
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
