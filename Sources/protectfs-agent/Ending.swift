import DataProtection
import SessionLock

/// Why the agent ends, and its exit status, which is the one that `protectfs` has for the same.
struct Ending: Error {
    enum Status: Int32 {
        case usage = 64
        case damaged = 65
        case notFound = 66
        case unavailable = 69
        case systemRefused = 71
        case inputOutput = 74
        case notNow = 75
        case refused = 77
    }
    let status: Status
    let reason: String?

    init(_ status: Status, _ reason: String?) { (self.status, self.reason) = (status, reason) }

    init(_ error: SessionLockError) {
        switch error {
        case .noBus(let system, let session):
            self.init(
                .unavailable,
                "there is no D-Bus here to follow (system bus: \(system.spoken), session bus: \(session.spoken)); without it, "
                    + "lock by protectfs lock or unlock --for")
        case .system(let errno): self.init(.systemRefused, errno.spoken)
        }
    }

    init(_ error: DataProtectionError) {
        let status: Status =
            switch error {
            case .because(KeybagFailure.keybagNotFound): .notFound
            case .because(KeybagFailure.keybagDamaged), .unsupported: .damaged
            case .keybagUnsafe: .refused
            case .because(KeybagFailure.keyringUnavailable): .unavailable
            default: .inputOutput
            }
        self.init(status, error.logged)
    }
}

extension DataProtectionError {
    /// For the log. The command explains more.
    var logged: String {
        switch self {
        case .because(KeybagFailure.keybagNotFound(let directory)): "there is no keybag in '\(directory)'"
        case .because(KeybagFailure.keybagDamaged(let directory, let reason)):
            "keybag '\(directory)' is damaged or altered: \(reason)"
        case .keybagUnsafe(let path, let reason): "'\(path)' is not used: \(reason)"
        case .because(KeybagFailure.keyringUnavailable(let errno)): "the kernel keyring cannot be used: \(errno.spoken)"
        case .because(KeybagFailure.lockUnproven), .because(KeybagFailure.keysElsewhere): message
        case .because(KeybagFailure.lockIncomplete(let key, let errno)):
            "\(key) is still in the kernel keyring: \(errno.spoken)"
        case .system(let path, let operation, let errno): "'\(path)': \(errno.spoken) (\(operation))"
        default: "\(self)"
        }
    }
}

extension Errno {
    /// strerror(3), in lower case as all our messages are.
    var spoken: String { description.prefix(1).lowercased() + description.dropFirst() }
}
