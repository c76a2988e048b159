import DataProtection

/// One download in the hands of the runner: a try, what follows from it, the end.
extension DownloadRunner {
    /// Does what is to be done of a download now; ends in every case.
    func work(_ record: DownloadRecord, _ request: DownloadRequest) async {
        do {
            if record.state == .publishing {
                try await publish(record.id)
            } else if request.upload != nil {
                try await upload(record, request)
            } else {
                let partial = try await partial(record, request)
                let end = record.isWhole ? EndOfTry.whole : await attempt(record, request, partial)
                try await settle(end, record.id, request, partial)
            }
        } catch is Superseded {
        } catch DownloadError.unknownDownload {
        } catch DownloadError.beforeFirstUnlock {
        } catch let error as DownloadError {
            failure = error  // the list cannot be written: nothing would be remembered
        } catch {
            failure = .store(store.path, code: 1, reason: "\(error)")
        }
        running[record.id] = nil
        ended.insert(record.id)
        progress.remove(record.id)
        refill()
        tellSoon()
    }

    private func partial(_ record: DownloadRecord, _ request: DownloadRequest) async throws -> PartialBox {
        if let partial = partials[record.id] { return partial }
        do {
            let memory = connections.memory
            let make: @Sendable () throws -> PartialBox = { [store] in
                let keys = try store.integrityKeys(for: request.checks)
                let isNew = !record.hasParts
                return PartialBox(
                    PartialFile(record.id, request, store, keys: keys, isNew: isNew, memory: memory))
            }
            let partial = request.checks.isEmpty ? try make() : try await BlockingWork.run(make)
            partials[record.id] = partial
            return partial
        } catch {
            // A key that was retired meanwhile is this download's trouble, and nobody else's.
            guard case .failedForGood(let failure) = EndOfTry(error) else { throw error }
            try await BlockingWork.run { [store] in try store.fail(record.id, with: failure) }
            throw Superseded()
        }
    }

    private func attempt(
        _ record: DownloadRecord, _ request: DownloadRequest, _ partial: PartialBox
    ) async -> EndOfTry {
        await DownloadTry(
            record: record, request: request, partial: partial, store: store, transport: transport,
            terms: terms, progress: progress
        ).run()
    }

    /// What follows from the way in which a try has ended.
    private func settle(
        _ end: EndOfTry, _ id: DownloadID, _ request: DownloadRequest, _ partial: PartialBox
    ) async throws {
        let store = store
        switch end {
        case .whole: try await finish(id, request, partial)
        case .stopped, .askForAll:
            let isStopped = partial.file.isStopped.load(ordering: .relaxed)
            if request.whileLocked == .suspend || isStopped { await close(id) }
        case .locked:
            await close(id)
            try await BlockingWork.run { try store.set(.waitingForUnlock, of: id) }
        case .failedForGood(let failure):
            await close(id)
            try await BlockingWork.run { try store.fail(id, with: failure) }
        case .lost(let failure):
            do { try await BlockingWork.run { try partial.file.startOver() } } catch {
                // Its directory cannot be read either.
                return try await settle(EndOfTry(error), id, request, partial)
            }
            try await retry(id, request, after: .resourceChanged, failure)
        case .failed(let reason, let failure):
            try await retry(id, request, after: reason, failure)
            // What could not be written for now is tried once more: it does not wait in memory.
            if partials.count > Self.openFiles || partial.file.isInMemory { await close(id) }
        }
    }

    func retry(
        _ id: DownloadID, _ request: DownloadRequest, after reason: RetryPolicy.Failure, _ failure: DownloadFailure
    ) async throws {
        let (store, now, jitter) = (store, Self.now, Double.random(in: 0...1))
        try await BlockingWork.run {
            let record = try store.record(id)
            let decision = request.retry.decide(
                reason, failures: record.failures + 1, began: record.began, now: now, jitter: jitter)
            switch decision {
            case .retry(let time): try store.retry(id, at: time, after: failure)
            case .fail: try store.fail(id, with: failure)
            case .giveUp:
                store.makeWaiting()
                let count = try store.record(id).attempts
                let words = "given up after \(count) \(count == 1 ? "try" : "tries"): \(failure.message)"
                try store.fail(id, with: DownloadFailure(.gaveUp, words, status: failure.status))
            }
        }
    }

    /// Every byte is there: checks them, and gives the file its name.
    private func finish(_ id: DownloadID, _ request: DownloadRequest, _ partial: PartialBox) async throws {
        let store = store
        do {
            if partial.file.isInMemory, try await finishInMemory(id, request, partial) { return }
            let failure = try await withTaskCancellationHandler {
                try await BlockingWork.run {
                    if !partial.file.isInOnePiece || partial.file.readsAgain { try store.set(.checking, of: id) }
                    try partial.file.prepare()
                    return try partial.file.check()
                }
            } onCancel: {
                partial.file.isStopped.store(true, ordering: .relaxed)
            }
            partials[id] = nil
            if let failure {
                // Not even under another name: a file that fails its check helps only its sender.
                return try await BlockingWork.run {
                    try store.failAndForget(id, with: failure)
                    // The next run of the list looks again for remains.
                    try? partial.file.remove()
                }
            }
            try await BlockingWork.run { try store.beginPublishing(id, try partial.file.finish()) }
        } catch {
            // Parts of before an unlock wait for it, and what was damaged comes again.
            return try await settle(EndOfTry(error), id, request, partial)
        }
        try await publish(id)
    }

    /// What is all in memory is checked, and written once, in its final class.
    ///
    /// - Returns: false if that cannot be: it is on disk now, and goes the way of larger ones.
    private func finishInMemory(
        _ id: DownloadID, _ request: DownloadRequest, _ partial: PartialBox
    ) async throws -> Bool {
        // Else one that lasts mostly follows at once, and makes this end last too; it is flushed before the bell rings.
        let (store, isLasting) = (store, !hasWaiting)
        let isOver = try await BlockingWork.run {
            if let failure = try partial.file.check() {
                try store.failAndForget(id, with: failure)
                return true
            }
            if let (file, published) = try partial.file.writeWhole() {
                try store.beginPublishing(id, published)
                switch Publication.end(of: file, request, store.keybag) {
                case .neverNamed: try store.takeBackPublishing(id)
                case .failed(let failure):
                    try store.endPublishing(id, failure: failure)
                    return true
                case .done:
                    try store.endPublishing(id, failure: nil, isLasting: isLasting)
                    return true
                }
            }
            try partial.file.sync(isLasting: false)
            try partial.file.noteWhole(isLasting: false)
            return false
        }
        if isOver { (partials[id], isUnflushed) = (nil, isUnflushed || !isLasting) }
        return isOver
    }

    private func publish(_ id: DownloadID) async throws {
        let (store, keybag) = (store, keybag)
        do {
            try await BlockingWork.run {
                let record = try store.record(id)
                guard let request = record.request, let file = record.result else { throw Superseded() }
                switch try Publication(request: request, file: file, keybag: keybag).perform() {
                case .done: try store.endPublishing(id, failure: nil)
                case .failed(let failure): try store.endPublishing(id, failure: failure)
                case .neverNamed: try store.takeBackPublishing(id)
                }
            }
        } catch DownloadError.protection(let error) where error.isPassing {
            // It is tried again, by the next look at the list.
            try? await Task.sleep(for: .seconds(1))
        }
    }
}
