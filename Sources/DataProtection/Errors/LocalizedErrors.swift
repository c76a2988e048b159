public import DurableFiles
public import FoundationEssentials
import Keybags
public import ProtectedFiles
public import ProtectionFormat
public import ProtectionKeys
import SystemPackage

/// The words of the command: what `protectfs` prints behind `error:` and `hint:`.
extension DataProtectionError: LocalizedError {
    /// What happened and where: lower case, no full stop, paths quoted for a shell.
    public var errorDescription: String? { message }

    /// Why, if more is known than what ``errorDescription`` begins with.
    public var failureReason: String? {
        switch self {
        case .because(let failure as KeybagFailure): failure.reason
        case .because(let failure as FileFailure): failure.reason
        case .damaged(_, _, let reason, _), .keybagUnsafe(_, let reason): reason
        case .unsupported(_, let what): what
        case .system(_, _, let errno): errno.spoken
        default: nil
        }
    }

    /// What to type next, if anything helps. It may name a command of protectfs.
    public var recoverySuggestion: String? { hint }
}

extension KeyError: LocalizedError {
    /// What libcrypto or the check of a key said.
    public var errorDescription: String? { "a key operation failed: \(self)" }
}

extension RecoveryCodeTypo: LocalizedError {
    /// What is wrong with the code that was typed.
    public var errorDescription: String? { message }
}

extension FormatError: LocalizedError {
    /// Which rule of the format is broken, or what this version does not know.
    public var errorDescription: String? {
        switch self {
        case .damaged(let layer, let reason): "damaged or altered (\(layer.rawValue): \(reason))"
        case .unsupported(let what): "made by a newer version: \(what)"
        case .notOurs: "not a protected file"
        }
    }
}

extension KeyringReach.Failure: LocalizedError {
    /// Which step the kernel refused, and why.
    public var errorDescription: String? { message }

    /// As ``errorDescription``.
    package var message: String { "the kernel refuses to \(step.rawValue) a key: \(errno.spoken)" }
}
