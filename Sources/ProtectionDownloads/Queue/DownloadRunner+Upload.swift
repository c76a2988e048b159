import DataProtection

/// One upload in the hands of the runner.
extension DownloadRunner {
    /// Does what is to be done of an upload now.
    ///
    /// - Throws: ``Superseded``; what is wrong with the list.
    func upload(_ record: DownloadRecord, _ request: DownloadRequest) async throws {
        let (store, id) = (store, record.id)
        let body: ProtectedFileBody
        do { body = try await self.body(id, request) } catch {
            return try await settleUpload(EndOfTry(error), id, request)
        }
        let end = await UploadTry(
            id: id, request: request, body: body, store: store, transport: transport, terms: terms, progress: progress,
            bell: bell
        ).run()
        try await settleUpload(end, id, request)
    }

    /// Opened once: a `completeUnlessOpen` file that was closed while locked could not be opened again.
    private func body(_ id: DownloadID, _ request: DownloadRequest) async throws -> ProtectedFileBody {
        if let body = bodies[id] { return body }
        closedBodies.remove(id)
        let body = try await BlockingWork.run { [keybag] in
            let body = try ProtectedFileBody(request.target.stored(), keybag: keybag)
            try body.requireAdder(of: request, keybag)
            return body
        }
        bodies[id] = body
        return body
    }

    private func settleUpload(_ end: EndOfTry, _ id: DownloadID, _ request: DownloadRequest) async throws {
        let store = store
        switch end {
        case .failed(let reason, let failure):
            try await retry(id, request, after: reason, failure)
            if bodies.count > Self.openFiles { bodies[id] = nil }
            return
        case .stopped, .askForAll: return
        case .whole: break
        case .locked:
            closedBodies.insert(id)
            try await BlockingWork.run { try store.set(.waitingForUnlock, of: id) }
        case .failedForGood(let failure), .lost(let failure):
            try await BlockingWork.run { try store.fail(id, with: failure) }
        }
        bodies[id] = nil
    }
}
