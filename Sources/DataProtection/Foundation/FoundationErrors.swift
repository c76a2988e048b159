import DurableFiles
import FoundationEssentials
import Keybags
import ProtectedFiles
import ProtectedTrees
import ProtectionKeys
import SystemPackage

/// What the `userInfo` of a `CocoaError` of this library holds beside `NSUnderlyingError`, the ``DataProtectionError``,
/// `NSURL` and `NSFilePath`.
public enum ProtectionErrorKey {
    /// The lock state that the operation met: ``ProtectionState``. With *locked* only, as the next three.
    public static let state = "ProtectionState"
    /// The class whose key was missing: `ProtectionClass`.
    public static let protectionClass = "ProtectionClass"
    /// What was being done: ``AttemptedOperation``.
    public static let operation = "ProtectionOperation"
    /// Since when the keybag has been in that state: `Date`; absent if nobody knows.
    public static let since = "ProtectionSince"
    /// What would help: ``Remedy``; absent if nothing does.
    public static let remedy = "ProtectionRemedy"
    /// Whether the same call can succeed later without being changed: `Bool`.
    public static let waitingHelps = "ProtectionWaitingHelps"
}

extension Error {
    /// What this library knows of the failure: the error itself, or the one underneath a `CocoaError`, however deep. Nil for errors that
    /// are none of this library's.
    ///
    /// An `NSError` is such a `CocoaError` too: it is bridged back. On Linux `NSError.underlyingErrors` does not exist.
    public var dataProtectionError: DataProtectionError? {
        if let error = self as? DataProtectionError { return error }
        guard let error = self as? CocoaError else { return nil }
        return (error.userInfo["NSUnderlyingError"] as? any Error)?.dataProtectionError
    }
}

extension DataProtectionError {
    /// The error that Foundation would throw, with this one as its underlying error.
    func cocoaError(for url: URL, isWriting: Bool) -> CocoaError {
        // NSUnderlyingErrorKey, NSURLErrorKey and NSFilePathErrorKey, whose names only the whole of Foundation has.
        var userInfo: [String: Any] = ["NSUnderlyingError": self, "NSURL": url, "NSFilePath": url.path]
        // NSLocalizedDescriptionKey, NSLocalizedFailureReasonErrorKey, NSLocalizedRecoverySuggestionErrorKey.
        userInfo["NSLocalizedDescription"] = errorDescription
        userInfo["NSLocalizedFailureReason"] = failureReason
        userInfo["NSLocalizedRecoverySuggestion"] = recoverySuggestion
        userInfo.merge(facts) { $1 }
        return CocoaError(cocoaCode(isWriting: isWriting), userInfo: userInfo)
    }

    private func cocoaCode(isWriting: Bool) -> CocoaError.Code {
        switch self {
        case .system(_, _, .noSuchFileOrDirectory): isWriting ? .fileNoSuchFile : .fileReadNoSuchFile
        case .system(_, _, .noSpace), .system(_, _, .diskQuotaExceeded), .because(FileFailure.tooSparse):
            .fileWriteOutOfSpace
        case .system(_, _, .readOnlyFileSystem): .fileWriteVolumeReadOnly
        case .system(_, _, .fileNameTooLong): isWriting ? .fileWriteInvalidFileName : .fileReadInvalidFileName
        case .exists: .fileWriteFileExists
        case .because(FileFailure.unknownClass): .featureUnsupported
        case .damaged, .because(FileFailure.mangled), .notProtected, .unsupported:
            isWriting ? .fileWriteUnknown : .fileReadCorruptFile
        case .because(KeybagFailure.locked), .because(KeybagFailure.lockedMeanwhile), .because(KeybagFailure.keyLost),
            .because(KeybagFailure.otherDevice), .because(FileFailure.foreignKeybag), .because(FileFailure.otherKey),
            .because(FileFailure.unverifiedOrigin), .because(FileFailure.ownedByAnother),
            .because(TreeFailure.notASegment), .system(_, _, .permissionDenied), .system(_, _, .notPermitted):
            isWriting ? .fileWriteNoPermission : .fileReadNoPermission
        default: isWriting ? .fileWriteUnknown : .fileReadUnknown
        }
    }

    /// State, class, operation, since when, and what helps, as far as this error has them.
    private var facts: [String: Any] {
        var facts: [String: Any] = [ProtectionErrorKey.waitingHelps: false]
        if let remedy {
            facts[ProtectionErrorKey.remedy] = remedy
            facts[ProtectionErrorKey.waitingHelps] = remedy != .reopen
        }
        guard case .because(KeybagFailure.locked(_, let protectionClass, let operation, let state, let since)) = self
        else { return facts }
        facts[ProtectionErrorKey.state] = state
        facts[ProtectionErrorKey.protectionClass] = protectionClass
        facts[ProtectionErrorKey.operation] = operation
        facts[ProtectionErrorKey.since] = since
        return facts
    }
}

extension URL {
    /// The path byte for byte.
    ///
    /// - Throws: `notRegularFile` for what is no file URL.
    func filePath() throws(DataProtectionError) -> FilePath {
        guard isFileURL else { throw .notRegularFile(FilePath(absoluteString)) }
        return withUnsafeFileSystemRepresentation { $0.map { FilePath(platformString: $0) } } ?? FilePath(path)
    }
}

/// Runs a file operation whose errors are Foundation's.
func inFoundationsWords<R>(
    _ path: String, isWriting: Bool, _ body: (FilePath) throws(DataProtectionError) -> R
) throws -> R {
    do throws(DataProtectionError) { return try body(FilePath(path)) } catch {
        throw error.cocoaError(for: URL(filePath: path), isWriting: isWriting)
    }
}
