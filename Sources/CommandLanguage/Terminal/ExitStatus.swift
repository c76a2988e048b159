/// What the command's exit says. Thrown when everything has been said already.
package enum ExitStatus: Int32, Error, Hashable, CaseIterable {
    /// Done; a warning may say what stays open.
    case done = 0
    case usage = 64
    /// Damaged, altered, or not ours.
    case damaged = 65
    /// No such file, keybag or item; a keybag that is not available.
    case notFound = 66
    /// No kernel keyring.
    case unavailable = 69
    /// A bug: report it.
    case bug = 70
    /// The system refused: limits, memory.
    case systemRefused = 71
    /// Exists already, cannot be created.
    case exists = 73
    /// Disk or I/O, full included.
    case inputOutput = 74
    /// Not now: locked, throttled, busy, lock not clean.
    case notNow = 75
    /// A server is not who it should be, or cannot prove it.
    case untrusted = 76
    /// Refused: wrong passcode, credentials, file permission.
    case refused = 77
    case configuration = 78
    /// Of `run`, as of env(1): the command cannot be run.
    case commandNotRunnable = 126
    /// Of `run`, as of env(1): there is no such command.
    case commandNotFound = 127
    case interrupted = 130

    /// Of several files the first of these that occurred is the command's status; then any other.
    private static let precedence: [ExitStatus] = [.inputOutput, .damaged, .refused, .notNow, .notFound]

    /// The status of a command of which one part ended with `self` and another one with `other`.
    package func joined(_ other: ExitStatus) -> ExitStatus {
        for status in Self.precedence where status == self || status == other { return status }
        return self == .done ? other : self
    }
}
