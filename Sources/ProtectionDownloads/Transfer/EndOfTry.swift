import DataProtection

/// How a try has ended.
enum EndOfTry {
    /// Every byte is there.
    case whole
    /// It may be tried again; what the user is told meanwhile.
    case failed(RetryPolicy.Failure, DownloadFailure)
    /// It will not go on by itself.
    case failedForGood(DownloadFailure)
    /// Nothing that is there can be used: at once again, from the first byte.
    case askForAll
    /// What had come was altered or removed by somebody else: again, from the first byte.
    case lost(DownloadFailure)
    /// It goes on after an unlock.
    case locked
    /// Somebody has paused or cancelled it, or the runner stops.
    case stopped

    /// What an error means that a try ended with.
    init(_ error: any Error) {
        switch error {
        case is PartialFile.Locked: self = .locked
        case is PartialFile.Vanished: self = .askForAll
        case is Superseded, is CancellationError: self = .stopped
        case let error as HTTPError: self = Self.end(of: error)
        case let error as DownloadError: self = Self.end(of: error)
        case let error as DataProtectionError: self = Self.end(of: .protection(error))
        default: self = .failed(.connection(isTransient: true), DownloadFailure(.connection, "\(error)"))
        }
    }

    private static func end(of error: HTTPError) -> EndOfTry {
        let words = "\(error)"
        switch error {
        case .refused(let reason): return EndOfTry(reason)
        case .cancelled: return .stopped
        case .serverNotTrusted(let verdict, let chain):
            var failure = DownloadFailure(.untrusted, "the server is not trusted: \(verdict)")
            failure.server = Origin.authority(chain.host, chain.port)
            return .failedForGood(failure)
        case .credentialsUnavailable(_, let error as DownloadError): return EndOfTry(error)
        case .credentialsUnavailable:
            return .failed(.connection(isTransient: true), DownloadFailure(.credentials, words))
        case .credentialsInURL, .credentialsOverPlainHTTP, .clientCertificateRequired, .clientCertificateRefused,
            .spaceNotListed, .credentialRefused, .authenticationCancelled, .spaceRejected,
            .spaceChanged, .malformedCredential:
            return .failedForGood(DownloadFailure(.credentials, words))
        case .authenticationUnsupported:
            return .failedForGood(DownloadFailure(.authenticationUnsupported, words))
        case .responseTooLarge, .unexpectedType: return .failedForGood(DownloadFailure(.unusable, words))
        case .tooManyRedirects, .redirectToPlainHTTP, .redirectOfBody, .malformedRedirect:
            return .failedForGood(DownloadFailure(.refused, words))
        case .hostNotFound(let host):
            return .failed(
                .connection(isTransient: true), DownloadFailure(.connection, words, unknownHost: host))
        default: return .failed(.connection(isTransient: error.isTransient), DownloadFailure(.connection, words))
        }
    }

    /// The server has answered with a status that says no.
    static func refused(_ response: HTTPResponse) -> EndOfTry {
        let kind: DownloadFailure.Kind = [401, 403, 407].contains(response.status) ? .credentials : .refused
        var failure = DownloadFailure(kind, "the server says \(response.status)", status: response.status)
        failure.server = response.url.host().map { Origin.authority($0, response.url.port ?? 443) }
        return .failed(.status(response.status, retryAfter: response["Retry-After"]), failure)
    }

    private static func end(of error: DownloadError) -> EndOfTry {
        switch error {
        case .unknownDownload, .beforeFirstUnlock: .stopped
        case .failed(let failure): .failedForGood(failure)
        case .unknownIntegrityKey(let id):
            .failedForGood(DownloadFailure(.integrityKey, "there is no integrity key \(id)"))
        case .retiredIntegrityKey(let id):
            .failedForGood(DownloadFailure(.integrityKey, "the integrity key \(id) was retired"))
        case .protection(.because(KeybagFailure.locked)): .locked
        case .protection(.damaged(let path, _, let reason, _)):
            .lost(DownloadFailure(.lost, "\(StoredPlace.shown(path)): \(reason)"))
        case .protection(.busy(let path)):
            .failed(
                .connection(isTransient: true),
                DownloadFailure(.disk, "somebody else has \(StoredPlace.shown(path)) open"))
        case .protection(let failure) where failure.isPassing:
            .failed(.connection(isTransient: true), DownloadFailure(.disk, "\(error)"))
        case .protection(.system(let path, let operation, let errno)):
            Self.end(of: errno, DownloadFailure(.disk, "\(operation) \(StoredPlace.shown(path)): \(errno)"))
        case .protection(.because(FileFailure.handleFailed(let path, let errno))):
            .failedForGood(DownloadFailure(.disk, "\(StoredPlace.shown(path)): \(errno)"))
        case .protection(.exists(let path)):
            .failedForGood(DownloadFailure(.targetExists, "\(StoredPlace.shown(path)) exists"))
        case .storeDamaged(_, let reason): .failedForGood(DownloadFailure(.disk, reason))
        case .store(let path, let code, let reason):
            .failedForGood(DownloadFailure(.disk, "the list \(path) cannot be used: \(reason) (\(code))"))
        case .cryptography(.libraryFailed(let operation, _)),
            .protection(.cryptography(.libraryFailed(let operation, _))):
            .failedForGood(DownloadFailure(.disk, "libcrypto failed on \(operation)"))
        default: .failedForGood(DownloadFailure(.disk, "\(error)"))
        }
    }

    /// What a process or the machine has too little of now it may have enough of later; a disk waits for somebody to see to it.
    private static func end(of errno: Errno, _ failure: DownloadFailure) -> EndOfTry {
        switch errno {
        case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory: .failed(.connection(isTransient: true), failure)
        default: .failedForGood(failure)
        }
    }
}

/// Thrown by a receiver that wants no more of an answer. The receiver knows how the try has ended then.
struct EnoughOfAnswer: Error {}

/// Receives the answer to a try, and decides how the try ends if the receiver wants no more of the answer.
protocol AnswerReceiver: HTTPReceiver {
    /// Set before ``EnoughOfAnswer`` is thrown.
    var end: EndOfTry? { get set }
}

extension AnswerReceiver {
    /// What to throw where the try has ended so.
    func enough(_ end: EndOfTry) -> EnoughOfAnswer {
        self.end = end
        return EnoughOfAnswer()
    }

    /// How a try has ended whose transfer has failed.
    func end(after error: HTTPError) -> EndOfTry {
        if case .refused(by: is EnoughOfAnswer) = error, let end { return end }
        return EndOfTry(error)
    }
}
