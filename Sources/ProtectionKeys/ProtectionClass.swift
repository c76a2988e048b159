/// When a protected file may be read. Apple Platform Security, "Data Protection classes".
///
/// The raw values are the class numbers of format 1 and of Apple's `cprotect.h`. 6 and 7 are kept free for F and CX.
public enum ProtectionClass: UInt8, Sendable, Hashable, CaseIterable {
    /// Only while unlocked.
    case complete = 1
    /// Can be created and written at any time, and written on while open; opened only while unlocked.
    case completeUnlessOpen = 2
    /// After the first unlock since boot.
    case completeUntilFirstUserAuthentication = 3
    /// At any time on this machine: no secrecy against somebody with the disk, only integrity and fast erasure.
    case none = 4

    /// Apple's raw string, as in `FileProtectionType.complete.rawValue`.
    public var appleName: String {
        switch self {
        case .complete: "NSFileProtectionComplete"
        case .completeUnlessOpen: "NSFileProtectionCompleteUnlessOpen"
        case .completeUntilFirstUserAuthentication: "NSFileProtectionCompleteUntilFirstUserAuthentication"
        case .none: "NSFileProtectionNone"
        }
    }

    /// The short spelling of the command line: `complete`, `unless-open`, `first-unlock`, `none`.
    public var shortName: String {
        switch self {
        case .complete: "complete"
        case .completeUnlessOpen: "unless-open"
        case .completeUntilFirstUserAuthentication: "first-unlock"
        case .none: "none"
        }
    }

    /// Reads the short spelling, Apple's raw string, or the name of the case.
    public init?(name: String) {
        let match = Self.allCases.first { name == $0.shortName || name == $0.appleName || name == "\($0)" }
        guard let match else { return nil }
        self = match
    }
}

extension ProtectionClass: Comparable {
    /// A weaker class is less: `none` < `completeUntilFirstUserAuthentication` < `completeUnlessOpen` < `complete`.
    public static func < (a: Self, b: Self) -> Bool { a.rawValue > b.rawValue }
}
