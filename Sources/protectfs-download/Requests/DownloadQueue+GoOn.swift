import FoundationEssentials

extension DownloadQueue {
    /// The downloads of those URLs and targets that are in the list, told to go on; else new ones. In their order, each once.
    func goOn(with requests: [DownloadRequest]) async throws -> [Result<Download, any Error>] {
        let unfinished = try await downloads(in: [.queued, .paused, .publishing, .failed])
        let list = Dictionary(grouping: unfinished) { $0.request?.target }
        var (results, new): ([Int: Result<Download, any Error>], [Place: Int]) = ([:], [:])
        for (index, request) in requests.enumerated() {
            do {
                if let download = try await goOn(with: request, in: list[request.target] ?? []) {
                    results[index] = .success(download)
                } else if new[Place(request)] == nil {
                    new[Place(request)] = index
                }
            } catch {
                results[index] = .failure(error)
            }
        }
        let indices = new.values.sorted()
        for (index, result) in zip(indices, try await add(indices.map { requests[$0] })) {
            results[index] = result.mapError { $0 }
        }
        return results.sorted { $0.key < $1.key }.map(\.value)
    }

    private struct Place: Hashable {
        let url: URL
        let target: FilePath
        init(_ request: DownloadRequest) { (url, target) = (request.url, request.target) }
    }

    /// Nil if it is not there.
    private func goOn(with request: DownloadRequest, in list: [Download]) async throws -> Download? {
        for download in list {
            guard let other = download.request, other.url == request.url else { continue }
            // Nothing comes of one that somebody has altered.
            if download.failure?.kind == .damaged { continue }
            switch download.state {
            case .finished, .cancelled: continue
            case .publishing: return download
            case .queued, .paused, .failed:
                // One with other checks, or that believes other servers, would not be what is asked for now.
                guard request.isSatisfied(by: other) else {
                    // Nothing is lost of one that has failed before a byte came; what is asked for now is what it was missing.
                    if download.state == .failed, download.received == 0, other.upload == nil {
                        try await remove(download.id)
                        continue
                    }
                    throw Failure(
                        .exists, "download \(download.id) of this file was asked for with other options",
                        hint: "to begin it again: protectfs download cancel \(download.id)")
                }
                if request.isPacedOtherwise(than: other) {
                    StandardError.line(
                        .note,
                        "download \(download.id) goes on with the rate, retries and priority that it was added with")
                }
                if !request.credentials.isEmpty { try await setCredentials(request.credentials, of: download.id) }
                if download.state != .queued { try await resume(download.id) }
                return try await self.download(download.id)
            }
        }
        return nil
    }
}
