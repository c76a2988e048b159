import Synchronization

extension HTTPClient {
    /// Sends a request, and keeps the response in memory.
    ///
    /// - Parameter limit: for the body, in bytes; of this and ``HTTPRequest/maximumResponseSize`` the lower one counts.
    public func send(
        _ request: HTTPRequest, limit: UInt64 = 16 << 20
    ) async throws(HTTPError) -> (response: HTTPResponse, body: [UInt8]) {
        var request = request
        request.maximumResponseSize = min(limit, request.maximumResponseSize ?? limit)
        let receiver = BytesReceived()
        let response = try await transfer(request, to: receiver)
        return (response, receiver.bytes)
    }
}

private final class BytesReceived: HTTPReceiver {
    private let received = Mutex<[UInt8]>([])

    var bytes: [UInt8] { received.withLock { $0 } }

    func begin(_ response: HTTPResponse) {}
    func receive(_ bytes: UnsafeRawBufferPointer) { received.withLock { $0 += bytes } }
}
