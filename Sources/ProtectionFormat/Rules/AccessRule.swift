public import ProtectionKeys

/// What can be done to a file, as far as the lock state has a say in it.
public enum FileOperation: String, Sendable, Hashable, CaseIterable {
    /// A new file of that class.
    case create
    /// Opening a file that is there, and reading.
    case openToRead
    /// Opening a file that is there, and writing.
    case openToWrite
    /// truncate(2), by name.
    case truncateByPath
    /// A new file in the place of an old one, whose contents are never read. It inherits the class, but not `none`: where no rule
    /// says otherwise it is of class C then.
    case replace
    /// Reading, writing and cutting through a handle that was opened while unlocked.
    case useHandle
    /// The same through a handle that created the file while locked or before first unlock.
    case useCreatedHandle
    /// Committing what was written: everything is sealed by then.
    case syncAndClose
    /// stat(2), class, unverified size, mode, times.
    case inspect
    /// Rename, link, unlink: the class goes with the file.
    case rename
    /// Exchanging the data of two files: each is sealed under its own key.
    case exchangeData
    /// Giving a directory the class of new files in it.
    case setDirectoryDefault
    /// The bytes as they are stored, for backups.
    case copyCiphertext
    /// From plaintext to that class.
    case protect
    /// From that class to plaintext.
    case unprotect
    /// From the file key that it has to a new one, in the same class.
    case rekey
}

/// The table that everything else is held against: operations × classes × lock states. A class changes by
/// ``canChange(from:to:in:)``.
public enum AccessRule {
    /// What an operation meets.
    public enum Answer: Sendable, Hashable {
        /// It goes.
        case allowed
        /// ENOKEY: an unlock helps.
        case locked
        /// EINVAL in every state.
        case refused
        /// There can be no such handle in this state.
        case cannotArise
    }

    /// What an operation asks of the class key.
    private enum Need {
        case nothing
        /// That it opens file keys.
        case opening
        /// That it wraps new ones.
        case wrapping
        /// The same for the class that is inherited.
        case wrappingInherited
        case handle, createdHandle
        case impossible
    }

    /// What `operation` on a file of `protectionClass` meets in `state`.
    public static func answer(
        _ operation: FileOperation, _ protectionClass: ProtectionClass, in state: ProtectionState
    ) -> Answer {
        switch need(operation) {
        case .nothing: .allowed
        case .opening: opens(protectionClass, in: state) ? .allowed : .locked
        case .wrapping: wraps(protectionClass, in: state) ? .allowed : .locked
        case .wrappingInherited: wraps(protectionClass.inherited, in: state) ? .allowed : .locked
        // A handle dies with the boot that it was opened in; only class A asks the ring again.
        case .handle where state == .beforeFirstUnlock: .cannotArise
        case .handle: protectionClass != .complete || opens(protectionClass, in: state) ? .allowed : .locked
        case .createdHandle where protectionClass == .complete: .cannotArise
        case .createdHandle: wraps(protectionClass, in: state) ? .allowed : .cannotArise
        case .impossible: .refused
        }
    }

    /// Whether a file of class `old` can become one of class `new`: its key is unwrapped and wrapped. The same class needs
    /// no key.
    public static func canChange(
        from old: ProtectionClass, to new: ProtectionClass, in state: ProtectionState
    ) -> Bool {
        old == new || (opens(old, in: state) && wraps(new, in: state))
    }

    /// Whether file keys of a class can be unwrapped.
    public static func opens(_ protectionClass: ProtectionClass, in state: ProtectionState) -> Bool {
        switch protectionClass {
        case .complete, .completeUnlessOpen: state == .unlocked
        case .completeUntilFirstUserAuthentication: state != .beforeFirstUnlock
        case .none: true
        }
    }

    /// Whether new file keys can be wrapped for a class: class B's public key lies in the clear.
    public static func wraps(_ protectionClass: ProtectionClass, in state: ProtectionState) -> Bool {
        protectionClass == .completeUnlessOpen || opens(protectionClass, in: state)
    }

    private static func need(_ operation: FileOperation) -> Need {
        switch operation {
        case .openToRead, .openToWrite, .truncateByPath, .unprotect, .rekey: .opening
        case .create, .protect: .wrapping
        case .replace: .wrappingInherited
        case .useHandle: .handle
        case .useCreatedHandle: .createdHandle
        case .syncAndClose, .inspect, .rename, .setDirectoryDefault, .copyCiphertext: .nothing
        case .exchangeData: .impossible
        }
    }
}

extension ProtectionClass {
    /// What a new file gets that takes this class over from a file or a directory: `none` is never inherited, and becomes class C.
    package var inherited: ProtectionClass { self == .none ? .completeUntilFirstUserAuthentication : self }
}
