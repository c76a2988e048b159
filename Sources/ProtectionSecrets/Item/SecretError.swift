public import DataProtection
public import ProtectionKeys
import SharedDatabase

public import struct FoundationEssentials.Date

/// Why an operation on secrets failed.
@nonexhaustive
public enum SecretError: Error, Sendable {
    /// It makes no sense; nothing was changed.
    case invalid(reason: String)
    /// The value is longer than ``SecretStore/maximumValueLength`` bytes.
    case valueTooLong(Int)
    /// There is a secret of that name in that group.
    case exists(SecretName, AccessGroup)
    /// There is no secret of that name in that group. In others there may be.
    case notFound(SecretName, AccessGroup)
    /// Its class key is not in the keyring; waiting for an unlock can help. `since`: when the keys went, if known.
    case locked(SecretName, SecretAccessibility, state: ProtectionState, since: Date?)
    /// Of this device only, and made with another device key, as after a recovery on another machine; or under a class key that another
    /// device made; or its row was altered. These cannot be told apart. It can be deleted, or set anew.
    case otherDevice(SecretName)
    /// Its key does not open under the class key of this generation. Another device that has a copy of the keybag made a class key with the
    /// same number; or its row was altered. The two cannot be told apart. The row is kept, because the other device may open it.
    case otherKey(SecretName, generation: UInt32)
    /// The secret does not open: its row was altered or damaged. Others are not touched.
    case damaged(SecretName, FilePath, reason: String)
    /// The keybag does not hold the class key of this generation: it was forgotten, or another device that has a copy of the keybag made it.
    case keyLost(SecretName, generation: UInt32)
    /// The keybag was made before there were secrets, and gets their class keys at its next unlock.
    case needsUnlock(FilePath)

    /// The database was altered or damaged.
    case storeDamaged(FilePath, reason: String)
    /// Written by a newer version.
    case storeNewer(FilePath)
    /// The database cannot be read or written; `code`: of SQLite.
    case store(FilePath, code: Int32, reason: String)
    /// What the keybag says.
    case protection(DataProtectionError)
    /// libcrypto failed on input that cannot make it fail.
    case cryptography(KeyError)
}

extension SecretError {
    init(_ error: SharedDatabaseError) {
        switch error {
        case .damaged(let path, let reason): self = .storeDamaged(path, reason: reason)
        case .newer(let path): self = .storeNewer(path)
        case .failed(let path, let code, let reason): self = .store(path, code: code, reason: reason)
        case .system(let path, let operation, let errno):
            self = .protection(.system(path, operation: operation, errno))
        }
    }

    /// Whether a secret is there and no unlock makes it readable: what takes its place loses nothing.
    var leavesNoValue: Bool {
        switch self {
        case .damaged, .otherDevice, .otherKey, .keyLost: true
        default: false
        }
    }

    /// What a keybag says of one secret.
    init(_ error: DataProtectionError, _ secret: SecretName, _ accessibility: SecretAccessibility) {
        switch error {
        case .because(KeybagFailure.locked(_, _, _, let state, let since)):
            self = .locked(secret, accessibility, state: state, since: since)
        case .because(KeybagFailure.keyLost(_, _, let generation, _)): self = .keyLost(secret, generation: generation)
        case .because(KeybagFailure.otherDevice): self = .otherDevice(secret)
        default: self = .protection(error)
        }
    }
}
