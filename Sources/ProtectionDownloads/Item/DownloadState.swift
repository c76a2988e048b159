/// Where a download is in its life. Its numbers are in the database: none is ever given another meaning.
public enum DownloadState: Int, Hashable, Sendable, CaseIterable {
    /// It waits, or is under way; ``DownloadActivity`` says which.
    case queued = 1
    /// Somebody has paused it. What came is kept.
    case paused = 2
    /// Everything is there and was checked; it is about to get its name.
    case publishing = 3
    /// It has its name. Its class is the wanted one, or will be after the next unlock.
    case finished = 4
    /// It will not go on by itself.
    case failed = 5
    /// Somebody has cancelled it.
    case cancelled = 6

    /// Whether nothing will happen any more unless somebody asks for it.
    public var isOver: Bool { self == .finished || self == .failed || self == .cancelled }
}

/// What a queued download does, or waits for. A word of the runner, which is worth nothing when none runs.
public enum DownloadActivity: Int, Hashable, Sendable, CaseIterable {
    /// For a runner, or for others of its server to end.
    case waiting = 0
    /// Bytes come.
    case transferring = 1
    /// Until its next try.
    case waitingToRetry = 2
    /// For the first unlock after a boot: its URL cannot be read before.
    case waitingForFirstUnlock = 3
    /// For an unlock: it is one that stops while locked, or its parts have to be put together.
    case waitingForUnlock = 4
    /// Its parts are put together, or what came is checked.
    case checking = 5
}
