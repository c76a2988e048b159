extension DownloadQueue {
    /// The download of that URL and target that is in the list, told to go on; else a new one.
    ///
    /// - Parameter list: as it was not long ago: a long one is not read again for each of many requests.
    func goOn(with request: DownloadRequest, in list: [Download]) async throws -> Download {
        for download in list {
            guard let other = download.request, other.url == request.url, other.target == request.target else {
                continue
            }
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
                if !request.credentials.isEmpty { try await setCredentials(request.credentials, of: download.id) }
                if download.state != .queued { try await resume(download.id) }
                return try await self.download(download.id)
            }
        }
        return try await add(request)
    }
}
