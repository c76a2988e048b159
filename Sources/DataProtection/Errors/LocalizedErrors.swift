public import DurableFiles
public import FoundationEssentials
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

/// The words of the command: what `protectfs` prints behind `error:` and `hint:`.
extension DataProtectionError: LocalizedError {
    /// What happened and where: lower case, no full stop, paths quoted for a shell.
    public var errorDescription: String? { message }

    /// Why, if more is known than what ``errorDescription`` begins with.
    public var failureReason: String? {
        switch self {
        case .locked(_, _, _, let state, let since): state.spoken(since: since)
        case .damaged(_, _, let reason, _), .keybagDamaged(_, let reason), .keybagUnsafe(_, let reason),
            .passcodeUnusable(let reason), .deviceKeyUnusable(_, let reason), .configuration(_, _, let reason):
            reason
        case .unsupported(_, let what): what
        case .mangled(_, let mangling): mangling.spoken
        case .system(_, _, let errno), .handleFailed(_, let errno), .keyringUnavailable(let errno),
            .lockIncomplete(_, let errno), .attemptsNotRecorded(_, let errno), .keybagUnconfirmed(_, let errno),
            .lockUnproven(_, .unwritable(let errno)):
            errno.spoken
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
