public import DataProtection
import Glibc

/// The downloads of a keybag: a list on disk that outlives every process, and what can be done to it.
///
/// Any number of processes may add to it, look and ask; one of them runs it (``run(untilIdle:)``), an application itself or
/// one that does nothing else. A program that is started again finds its downloads by their ids.
///
///     let queue = try DownloadQueue(keybag)
///     let download = try await queue.add(DownloadRequest(url, to: path))
///     try await download.value
public actor DownloadQueue {
    nonisolated let store: DownloadStore
    nonisolated let progress = LiveProgress()
    nonisolated let changes: ListChanges
    private let transport: any DownloadTransport
    private let connections: DownloadConnections
    /// What a handler has given to this process.
    private let session = SessionCredentials()
    private nonisolated var bell: Bell { Bell(directory: store.directory) }

    /// Opens the list of a keybag, or begins one. Works in every lock state.
    ///
    /// - Parameters:
    ///   - transport: makes the requests.
    ///   - connections: how they are made, and how many at once.
    /// - Throws: `storeDamaged`, `storeNewer`, `store`, `protection`.
    public init(
        _ keybag: Keybag, transport: any DownloadTransport = HTTPClient(),
        connections: DownloadConnections = DownloadConnections()
    ) throws(DownloadError) {
        store = try DownloadStore(keybag)
        changes = ListChanges(store, progress)
        self.transport = transport
        self.connections = connections
    }

    // MARK: the list

    /// Adds a download or an upload. When this returns it is not forgotten, whatever happens.
    ///
    /// - Throws: `invalidRequest`, `targetExists`, `targetInList`, `noDirectory`, `beforeFirstUnlock`, `unknownIntegrityKey`,
    ///   `retiredIntegrityKey`; `protection` if the target is a directory or its name too long, or what is to be uploaded is no
    ///   protected file, or cannot be opened now (`locked`); what is wrong with the list.
    public func add(_ request: DownloadRequest) async throws(DownloadError) -> Download {
        try await add([request])[0].get()
    }

    /// Adds several, in their order, by one change of the list: for many that is much faster than one by one.
    ///
    /// One that cannot be added keeps no other one out. Of two for the same file the first one is added, and the second only if it
    /// is to replace what is there.
    /// - Returns: for each what it is, or why it was not added, as ``add(_:)-(DownloadRequest)`` throws it.
    /// - Throws: what is wrong with the list; nothing was added then.
    public func add(
        _ requests: [DownloadRequest]
    ) async throws(DownloadError) -> [Result<Download, DownloadError>] {
        let added = try await changing { store throws(DownloadError) in
            let checked: [Result<DownloadRequest, DownloadError>] = requests.map { request in
                Result { () throws(DownloadError) in
                    try Self.checked(request, store)
                }
            }
            let good = checked.compactMap { try? $0.get() }
            var ids = (good.isEmpty ? [] : try store.add(good))[...]
            return checked.map { request -> Result<DownloadRecord, DownloadError> in
                request.flatMap { _ in
                    Result { () throws(DownloadError) in try store.record(ids.removeFirst().get()) }
                }
            }
        }
        return added.map { $0.map { Download($0, self, live: nil) } }
    }

    private static func checked(
        _ request: DownloadRequest, _ store: DownloadStore
    ) throws(DownloadError) -> DownloadRequest {
        var request = request
        try request.check()
        if request.upload != nil {
            // A caller that cannot open the file must not choose where it goes.
            request.fileID = try protected { () throws(DataProtectionError) in
                try ProtectedFileBody(request.target.stored(), keybag: store.keybag).id
            }
        } else {
            try checkTarget(of: request)
        }
        _ = try store.integrityKeys(for: request.checks)
        return request
    }

    /// All downloads, in the order in which they were added.
    public func downloads() async throws(DownloadError) -> [Download] {
        let records = try await store.blocking { store throws(DownloadError) in try store.records() }
        return records.map { Download($0, self, live: progress($0.id)) }
    }

    /// Those in one of these states.
    public func downloads(in states: Set<DownloadState>) async throws(DownloadError) -> [Download] {
        let records = try await store.blocking { store throws(DownloadError) in try store.records(in: states) }
        return records.map { Download($0, self, live: progress($0.id)) }
    }

    /// The download of that id.
    ///
    /// - Throws: `unknownDownload`.
    public func download(_ id: DownloadID) async throws(DownloadError) -> Download {
        let record = try await store.blocking { store throws(DownloadError) in try store.record(id) }
        return Download(record, self, live: progress(id))
    }

    /// Whether some process runs the list now.
    public nonisolated var isRunning: Bool { RunnerLock.isHeld(in: store.directory) }

    // MARK: what can be asked for

    /// Stops it, and keeps what has come.
    ///
    /// - Throws: `wrongState` if it is over, or about to get its name.
    public func pause(_ id: DownloadID) async throws(DownloadError) {
        try await changing { store throws(DownloadError) in try store.change(id, from: [.queued, .paused], to: .paused)
        }
    }

    /// Lets it go on: a paused one, one that has failed, or one that waits for its next try.
    ///
    /// - Throws: `wrongState`.
    public func resume(_ id: DownloadID) async throws(DownloadError) {
        try await changing { store throws(DownloadError) in
            try store.change(id, from: [.queued, .paused, .failed], to: .queued)
        }
    }

    /// Ends it, and removes what has come. When this returns it will not get its name any more.
    ///
    /// - Throws: `wrongState` if it is finished, or about to get its name.
    public func cancel(_ id: DownloadID) async throws(DownloadError) {
        try await changing { store throws(DownloadError) in
            if try store.record(id).isDamaged { return }
            try store.change(id, from: [.queued, .paused, .failed, .cancelled], to: .cancelled)
            try Self.clear(id, store)
        }
    }

    /// Takes it out of the list, if it is over. A finished file stays; of one that has failed nothing does.
    ///
    /// - Throws: `wrongState`.
    public func remove(_ id: DownloadID) async throws(DownloadError) {
        try await changing { store throws(DownloadError) in
            let record = try store.record(id)
            guard record.state.isOver else { throw .wrongState(id, record.state) }
            if record.isDamaged { return try store.remove(id, isDamaged: true) }
            // Its name cannot be read before the first unlock, and its files would stay for ever.
            guard let request = record.request else { throw .beforeFirstUnlock(store.keybag.directory) }
            if record.state != .finished {
                try PartialName(target: request.target, id: id).removeRest()
            }
            try store.remove(id)
        }
    }

    /// Takes all out of the list that are finished or cancelled. Finished files stay. By itself the list forgets them after
    /// thirty days, and keeps a thousand at most.
    public func removeEnded() async throws(DownloadError) {
        try await changing { store throws(DownloadError) in try store.forgetEnded() }
    }

    /// Where nobody runs the list, nobody else removes what is left of a cancelled one.
    private static func clear(_ id: DownloadID, _ store: DownloadStore) throws(DownloadError) {
        let lock: RunnerLock
        do throws(DownloadError) { lock = try RunnerLock(in: store.directory) } catch .alreadyRunning { return }
        defer { withExtendedLifetime(lock) {} }
        guard let request = try store.record(id).request else { return }
        try PartialName(target: request.target, id: id).removeRest()
        try store.forgetParts(of: id)
    }

    // MARK: running

    /// Runs the list until the task is cancelled; notices at once what other processes add to it.
    ///
    /// What is under way when the task is cancelled is flushed, and goes on from there the next time.
    /// - Parameter untilIdle: end when nothing is left that goes on without an unlock.
    /// - Throws: `alreadyRunning`; what is wrong with the list.
    public func run(untilIdle: Bool = false) async throws(DownloadError) {
        try await DownloadRunner(store, transport, connections, progress, session).run(untilIdle: untilIdle)
    }

    /// What the user has excepted from trust. Looked at before each try.
    public nonisolated var trustExceptions: TrustExceptionStore { store.trustExceptions }

    // MARK: integrity keys

    /// Keeps a key under which HMACs are checked. It stays when this process ends.
    ///
    /// - Throws: `weakIntegrityKey`, `integrityKeyExists`, `beforeFirstUnlock`.
    public func addIntegrityKey(_ key: IntegrityKey) async throws(DownloadError) {
        try await changing { store throws(DownloadError) in try store.add(key) }
    }

    /// Accepts it no more; downloads that need it fail, and say so.
    ///
    /// - Throws: `unknownIntegrityKey`.
    public func retireIntegrityKey(_ id: String) async throws(DownloadError) {
        try await changing { store throws(DownloadError) in try store.retireIntegrityKey(id) }
    }

    /// The ids of all keys, and whether they are still accepted.
    public func integrityKeyIDs() async throws(DownloadError) -> [(id: String, isRetired: Bool)] {
        try await store.blocking { store throws(DownloadError) in try store.integrityKeyIDs() }
    }

    // MARK: in common

    /// What would only be found out when everything has come: whether a file can get that name, as things are now.
    ///
    /// - Throws: `noDirectory`, `targetExists`; `protection` for a directory, a name that is too long, and a mount that does not answer.
    private static func checkTarget(of request: DownloadRequest) throws(DownloadError) {
        let target = try protected { () throws(DataProtectionError) in try request.target.stored() }
        var status = stat()
        guard target.directory.withPlatformString({ stat($0, &status) }) == 0, status.isDirectory else {
            throw .noDirectory(request.target.directory)
        }
        guard target.withPlatformString({ lstat($0, &status) }) == 0 else {
            if errno == ENOENT { return }
            throw .protection(.system(target, operation: "lstat", Errno(rawValue: errno)))
        }
        if status.isDirectory { throw .protection(.notRegularFile(target)) }
        if !request.replacesExisting { throw .targetExists(request.target) }
    }

    func changing<R: Sendable>(
        _ body: @escaping @Sendable (DownloadStore) throws(DownloadError) -> R
    ) async throws(DownloadError) -> R {
        let result = try await store.blocking(body)
        bell.ring()
        return result
    }
}

extension stat {
    fileprivate var isDirectory: Bool { st_mode & S_IFMT == S_IFDIR }
}
