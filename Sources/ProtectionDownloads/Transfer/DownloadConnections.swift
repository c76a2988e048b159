import Synchronization

/// How the process that runs the list connects: what holds for all downloads, and what must not be written down.
public struct DownloadConnections: Sendable {
    /// How many downloads run at once; one at least.
    public var total = 16
    /// How many of them with one server; one at least.
    public var perHost = 8
    /// What is announced to be no longer than this many bytes is kept in memory until it is whole.
    package var memory = WriteBuffer.capacity
    /// Of all downloads together.
    public var bandwidth: BandwidthLimit?
    private let rates = SharedRates()
    /// Where credentials come from, for the spaces that a request or the list names, before the list's own.
    public var credentials: (any CredentialStore)?
    /// Asked about challenges of those spaces.
    public var handler: (any AuthenticationHandler)?
    /// Where bearer tokens come from, for the spaces that a request lists itself.
    public var tokens: (any BearerTokens)?
    /// Of requests that name none.
    public var proxy: HTTPProxy?
    /// How long it may take until a connection is there.
    public var connectTimeout = Duration.seconds(30)
    /// When a transfer counts as stalled.
    public var stallLimit = HTTPRequest.StallLimit()

    /// Connections that no request has used yet.
    public init() {}

    /// What is asked of a server for a download.
    func request(
        _ request: DownloadRequest, exceptions: Set<TrustException>, authentication: HTTPAuthentication
    ) -> HTTPRequest {
        var http = HTTPRequest(request.url)
        http.headers = request.headers
        http.trust = request.trust.excepting(request.trust.exceptions.union(exceptions))
        http.allowsPlainHTTP = request.allowsPlainHTTP
        http.sharedLimits = rates.limits(of: request) + (bandwidth.map { [$0] } ?? [])
        (http.proxy, http.connectTimeout, http.stallLimit) = (request.proxy ?? proxy, connectTimeout, stallLimit)
        http.acceptedTypes = request.acceptedTypes
        // Also where nothing is listed: then an error says which space was met.
        http.authentication = authentication
        return http
    }
}

/// One limit for all downloads that were asked for with the same one.
private final class SharedRates: Sendable {
    private let limits = Mutex<[UInt64: BandwidthLimit]>([:])

    func limits(of request: DownloadRequest) -> [BandwidthLimit] {
        guard let rate = request.bandwidthLimit else { return [] }
        return limits.withLock { limits in
            let limit = limits[rate] ?? BandwidthLimit(bytesPerSecond: rate)
            limits[rate] = limit
            return [limit]
        }
    }
}
