extension DownloadFailure {
    /// The exit status that says the same.
    var exitStatus: ExitStatus {
        switch kind {
        case .checksum, .unusable, .lost, .damaged: .damaged
        case .untrusted: .untrusted
        case .credentials, .authenticationUnsupported: .refused
        // Not Found and Gone: RFC 9110 §15.5.5, §15.5.11.
        case .refused: status == 404 || status == 410 ? .notFound : .notNow
        case .gaveUp, .connection: .notNow
        case .disk: .inputOutput
        case .targetExists: .exists
        case .integrityKey: .configuration
        }
    }
}

extension DownloadError: SpokenError {
    package var exitStatus: ExitStatus {
        switch self {
        case .invalidRequest, .weakIntegrityKey: .usage
        case .targetExists, .targetInList, .integrityKeyExists: .exists
        case .noDirectory, .unknownDownload: .notFound
        case .wrongState, .beforeFirstUnlock, .alreadyRunning: .notNow
        case .failed(let failure): failure.exitStatus
        case .cancelled: .interrupted
        case .unknownIntegrityKey, .retiredIntegrityKey: .configuration
        case .unusableIdentity(let error): error == .wrongPassphrase ? .refused : .damaged
        case .storeDamaged, .storeKeyLost, .storeNewer: .damaged
        case .store: .inputOutput
        case .protection(let error): error.exitStatus
        case .cryptography: .bug
        }
    }

    package var hint: String? {
        switch self {
        case .invalidRequest(let reason) where reason.hasPrefix("http:// must be allowed"):
            "to allow it for this download: --allow-plain-http"
        case .targetExists: "to replace it: --replace; for another name: --output FILE"
        case .targetInList(_, let id):
            "to choose another name: --output FILE; to replace its file later: --replace; to cancel it: protectfs download cancel \(id)"
        case .unknownDownload: "see them with: protectfs download list"
        case .beforeFirstUnlock(let directory):
            "unlock first: protectfs unlock\(KeybagOption.words(for: directory))"
        case .storeDamaged(let path, _), .storeKeyLost(let path):
            "restore it from a backup; or move \(quoted(path.removingLastComponent())) away to start a new list"
        case .protection(let error): error.hint
        case .unusableIdentity(.wrongPassphrase):
            "give its passcode: \(SecretDescriptor.example("--identity-passcode-fd"))"
        case .unusableIdentity(.unsupportedEncryption):
            "convert it: openssl pkcs12 -legacy -in OLD.p12 -noenc | openssl pkcs12 -export -out NEW.p12"
        case .failed(let failure) where failure.kind == .authenticationUnsupported:
            "supported are: Basic, Digest, NTLM, a bearer token, a client certificate"
        default: nil
        }
    }
}

extension HTTPError: SpokenError {
    package var exitStatus: ExitStatus {
        switch self {
        case .serverNotTrusted: .untrusted
        case .unsupportedURL, .credentialsInURL, .plainHTTPNotAllowed, .malformedRequest, .malformedHeader,
            .managedHeader, .unsupportedProxy:
            .usage
        default: .notNow
        }
    }
    package var message: String { description.split(separator: "\n").joined(separator: "; ") }
    package var hint: String? { nil }
}

extension TrustError: SpokenError {
    package var exitStatus: ExitStatus { .usage }
    package var message: String { description }
    package var hint: String? { nil }
}

extension TrustExceptionStoreError: SpokenError {
    package var exitStatus: ExitStatus {
        switch self {
        case .system(_, _, let errno): ExitStatus(errno)
        case .locked: .notNow
        default: .damaged
        }
    }
    package var message: String { description }
    package var hint: String? {
        switch self {
        case .unauthenticated(let path):
            "look at it, remove it, and add the exceptions that you still accept: rm \(quoted(path)); protectfs download trust add"
        case .locked: "unlock first: protectfs unlock"
        default: nil
        }
    }
}
