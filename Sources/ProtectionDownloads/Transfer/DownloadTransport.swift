/// Makes the requests of downloads: ``HTTPClient``, or a stand-in for a test.
public protocol DownloadTransport: Sendable {
    /// Sends a request, and gives what comes to `receiver`. Cancelled when its task is.
    func transfer(_ request: HTTPRequest, to receiver: any HTTPReceiver) async throws(HTTPError) -> HTTPResponse
}

extension HTTPClient: DownloadTransport {}
