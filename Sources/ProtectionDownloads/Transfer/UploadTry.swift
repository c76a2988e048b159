import DataProtection

/// One try to send a file: whole, from its first byte.
struct UploadTry: Sendable {
    let id: DownloadID
    let request: DownloadRequest
    let body: ProtectedFileBody
    let store: DownloadStore
    let transport: any DownloadTransport
    let terms: TryTerms
    let progress: LiveProgress
    let bell: Bell

    /// Ends in every case. `whole`: the server has acknowledged it, and the list knows. So it may after any other end: whatever
    /// becomes of the rest of the answer changes nothing any more.
    func run() async -> EndOfTry {
        let receiver = Acknowledgement(store, id, length: body.length)
        let noting = Task { try await noteProgress() }
        defer { noting.cancel() }
        do {
            let tokens = terms.tokens(of: id, request)
            var http = try await BlockingWork.run {
                try store.beginSending(id)
                return try terms.http(for: request, id, tokens, isSecret: body.isShutWhileLocked)
            }
            (http.method, http.body) = (request.upload?.rawValue ?? "PUT", SentBody(body, id, progress))
            // draft-ietf-httpapi-idempotency-key-header
            if request.upload == .post { http.headers.append(HTTPHeader("Idempotency-Key", "\"\(id)\"")) }
            do throws(HTTPError) { _ = try await transport.transfer(http, to: receiver) } catch {
                // Another try would send what the file holds by then.
                if receiver.isAcknowledged { return .whole }
                try await terms.note(error, tokens)
                return receiver.end(after: error)
            }
            return .whole
        } catch {
            return EndOfTry(error)
        }
    }

    /// For those who look from another process.
    private func noteProgress() async throws {
        while true {
            try await Task.sleep(for: .seconds(1))
            guard let (sent, length) = progress(id) else { continue }
            try await BlockingWork.run { try store.noteSent(sent, of: length, for: id) }
            bell.ring()
        }
    }
}

/// The first bytes of an answer that says yes: it is noted before anything else happens, so that nothing is sent twice.
private final class Acknowledgement: AnswerReceiver, @unchecked Sendable {  // one thread at a time
    private let store: DownloadStore
    private let id: DownloadID
    private let length: UInt64
    var end: EndOfTry?
    private(set) var isAcknowledged = false

    init(_ store: DownloadStore, _ id: DownloadID, length: UInt64) {
        (self.store, self.id, self.length) = (store, id, length)
    }

    func begin(_ response: HTTPResponse) throws {
        guard 200..<300 ~= response.status else { throw enough(.refused(response)) }
        guard response.acknowledgesBody else {
            // Not sent again by itself: the server that got it may have taken it.
            let host = response.url.host() ?? "another server"
            let words = "redirected to \(host) without the file; the server did not confirm that it took the file"
            throw enough(.failedForGood(DownloadFailure(.refused, words)))
        }
        let file = PublishedFile(
            fileID: [], temporary: [], length: length, isTamperProof: false)
        try store.endUpload(id, file)
        isAcknowledged = true
    }

    func receive(_ bytes: UnsafeRawBufferPointer) {}
}

/// A body that says how far it is.
private struct SentBody: HTTPBody {
    private let body: ProtectedFileBody
    private let id: DownloadID
    private let progress: LiveProgress

    init(_ body: ProtectedFileBody, _ id: DownloadID, _ progress: LiveProgress) {
        (self.body, self.id, self.progress) = (body, id, progress)
    }

    var length: UInt64 { body.length }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws -> Int {
        let count = try body.read(into: buffer, at: offset)
        progress.set(offset + UInt64(count), of: length, for: id)
        return count
    }
}
