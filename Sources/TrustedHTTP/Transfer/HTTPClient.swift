/// Makes requests, over connections that are checked before anything is sent.
public final class HTTPClient: Sendable {
    public init() {}

    /// Sends a request, and gives what comes to `receiver`. Cancelled when its task is.
    ///
    /// A status of 400 or more is a response like any other.
    public func transfer(_ request: HTTPRequest, to receiver: any HTTPReceiver) async throws(HTTPError) -> HTTPResponse {
        fatalError("not built yet")
    }
}
