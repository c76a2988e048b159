import DataProtection
public import FoundationEssentials

extension DownloadFailure: LocalizedError {
    /// What happened, on one line.
    public var errorDescription: String? { words }

    /// On one line, and without what a terminal would obey: servers have a say in it, and names of files.
    package var words: String { printable(message.split(separator: "\n").joined(separator: "; ")) }
}

extension DownloadError: LocalizedError {
    /// What happened and where: lower case, no full stop, paths quoted.
    public var errorDescription: String? { message }

    /// What to do next, as far as the keybag or its files are concerned.
    public var recoverySuggestion: String? {
        if case .protection(let error) = self { error.recoverySuggestion } else { nil }
    }

    /// As ``errorDescription``.
    package var message: String {
        switch self {
        case .invalidRequest(let reason): reason
        case .targetExists(let path): "\(quoted(path)) exists already"
        case .targetInList(let path, let id): "download \(id) in the list has the same target \(quoted(path))"
        case .noDirectory(let path): "there is no directory \(quoted(path))"
        case .unknownDownload(let id): "there is no download \(id)"
        case .wrongState(let id, let state): "download \(id) is \(state.word)"
        case .failed(let failure): failure.words
        case .cancelled(let id): "download \(id) was cancelled"
        case .unknownIntegrityKey(let id): "there is no integrity key \(quoted(id))"
        case .retiredIntegrityKey(let id): "the integrity key \(quoted(id)) is retired"
        case .weakIntegrityKey(let id, let bytes):
            "the integrity key \(quoted(id)) has \(spoken(bytes, "byte")); at least 32 are needed"
        case .integrityKeyExists(let id): "the id \(quoted(id)) is already used by another integrity key"
        case .unusableIdentity(let error): error.description
        case .beforeFirstUnlock(let path):
            "the downloads of \(quoted(path)) cannot be read: not unlocked since the machine started"
        case .alreadyRunning(let path): "another process is running the list \(quoted(path))"
        case .storeDamaged(let path, let reason): "the list \(quoted(path)) is damaged or altered: \(reason)"
        case .storeKeyLost(let path): "the key of the list, \(quoted(path)), is missing"
        case .storeNewer(let path): "the list \(quoted(path)) was made by a newer version"
        case .store(let path, let code, let reason): "the list \(quoted(path)) cannot be used: \(reason) (\(code))"
        case .protection(let error): error.message
        case .cryptography(let error): "libcrypto failed on \(error); please report this"
        }
    }
}

extension DownloadState {
    /// One word, for messages and scripts.
    package var word: String {
        switch self {
        case .queued: "queued"
        case .paused: "paused"
        case .publishing: "publishing"
        case .finished: "finished"
        case .failed: "failed"
        case .cancelled: "cancelled"
        }
    }
}
