import DurableFiles
import Keybags
import ProtectedFiles
import ProtectedTrees

/// What would help after an error.
public enum Remedy: Hashable, Sendable {
    /// An unlock of the keybag: by somebody who knows the passcode.
    case unlock
    /// Nothing but time.
    case wait(Duration)
    /// Trying again when somebody else has finished.
    case tryAgain
    /// A new handle on the same file: nothing acknowledged was lost.
    case reopen
}

extension DataProtectionError {
    /// What would help, if anything does that a caller can do without changing its request.
    public var remedy: Remedy? {
        switch self {
        case .because(KeybagFailure.locked), .because(KeybagFailure.lockedMeanwhile): .unlock
        case .because(KeybagFailure.throttled(_, let time)): .wait(time)
        case .because(KeybagFailure.wrongPasscode(_, _, let time)): time > .zero ? .wait(time) : nil
        case .because(KeybagFailure.hardware(_, .lockedOut(let time?))): .wait(time)
        case .busy, .because(KeybagFailure.lockUnproven): .tryAgain
        case .because(FileFailure.handleFailed): .reopen
        default: nil
        }
    }
}
