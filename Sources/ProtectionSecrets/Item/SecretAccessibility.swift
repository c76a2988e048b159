public import ProtectionKeys

/// In which lock states a secret can be read, added and changed. Apple's `kSecAttrAccessible…`.
///
/// The raw values are those of FORMAT.md §2.15.
public enum SecretAccessibility: UInt8, Sendable, Hashable, CaseIterable {
    /// Only while unlocked.
    case whenUnlocked = 1
    /// Only while unlocked, and never on another machine: left out of backups, and bound to the device key.
    case whenUnlockedThisDeviceOnly = 2
    /// After the first unlock since boot.
    case afterFirstUnlock = 3
    /// After the first unlock since boot, and never on another machine.
    case afterFirstUnlockThisDeviceOnly = 4

    /// Whether it is left out of backups: to open it takes this machine's device key.
    public var isThisDeviceOnly: Bool { self == .whenUnlockedThisDeviceOnly || self == .afterFirstUnlockThisDeviceOnly }

    /// The same, readable only while unlocked.
    var whenUnlocked: SecretAccessibility { isThisDeviceOnly ? .whenUnlockedThisDeviceOnly : .whenUnlocked }

    /// As strict as both: readable only while unlocked, and of this device only, if one of them is.
    func asStrict(as other: SecretAccessibility) -> SecretAccessibility {
        let strict = protectionClass == .complete ? self : other.protectionClass == .complete ? whenUnlocked : self
        guard other.isThisDeviceOnly else { return strict }
        return strict.protectionClass == .complete ? .whenUnlockedThisDeviceOnly : .afterFirstUnlockThisDeviceOnly
    }

    /// The class of files with the same lock states.
    public var protectionClass: ProtectionClass {
        switch self {
        case .whenUnlocked, .whenUnlockedThisDeviceOnly: .complete
        case .afterFirstUnlock, .afterFirstUnlockThisDeviceOnly: .completeUntilFirstUserAuthentication
        }
    }

    /// The class key of secrets that wraps the keys of those with this accessibility.
    func classKey(of keybag: KeybagUUID, generation: UInt32) -> ClassKeyName {
        ClassKeyName(keybag: keybag, kind: .secrets, protectionClass: protectionClass, generation: generation)
    }

    /// The spelling of the command line: `when-unlocked`, `after-first-unlock`, each also with `-this-device-only`.
    public var name: String {
        switch self {
        case .whenUnlocked: "when-unlocked"
        case .whenUnlockedThisDeviceOnly: "when-unlocked-this-device-only"
        case .afterFirstUnlock: "after-first-unlock"
        case .afterFirstUnlockThisDeviceOnly: "after-first-unlock-this-device-only"
        }
    }

    /// Reads the spelling of the command line.
    public init?(name: String) {
        guard let match = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = match
    }
}
