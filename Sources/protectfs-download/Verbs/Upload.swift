import FoundationEssentials

extension DownloadUpload {
    func perform() async throws {
        guard let url = URL(string: url) else { throw Failure(.usage, "\(quoted(url)) is not a URL") }
        let queue = try keybag.downloads(connection.connections())
        var request = DownloadRequest(
            uploading: try TargetOptions.lasting(file.path), to: url, by: method == .post ? .post : .put)
        request.trust = try trust.trust()
        request.credentials = try credentials.given()(for: url)
        transfer.warn()
        try request.take(transfer)
        let uploads = try await queue.goOn(with: [request]).map { try $0.get() }
        try await queue.finish(uploads, Outcome(), asJSON: json)
    }
}
