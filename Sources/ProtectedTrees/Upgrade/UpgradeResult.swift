import DurableFiles
import Keybags
import ProtectedFiles
public import ProtectionKeys
public import SystemPackage

/// What an upgrade did to one file.
public struct UpgradeResult: Hashable, Sendable {
    /// How it ended.
    public enum Outcome: Hashable, Sendable {
        /// It was plaintext and is protected now.
        case converted
        /// It was protected by this weaker class.
        case raised(from: ProtectionClass)
        /// It has its class, or a stronger one; no key was needed to see that.
        case unchanged
        /// It is not for an upgrade.
        case skipped(UpgradeSkip)
        /// It cannot be done while locked; the next unlock does it.
        case queued
        /// It is as it was.
        case failed(DataProtectionError)
    }

    /// The file, or a directory where something is to be said of it.
    public let path: FilePath
    /// The class that it is to have at least; nil where nothing is said of it.
    public let protectionClass: ProtectionClass?
    /// What it took, in bytes.
    public let size: Int64
    /// How it ended.
    public let outcome: Outcome
}

/// Why a file is not for an upgrade.
public enum UpgradeSkip: Hashable, Sendable {
    /// A symbolic link, which is not followed.
    case link
    /// A device, socket or FIFO.
    case notRegularFile
    /// A directory on which another file system is mounted.
    case otherFileSystem
    /// Not among ``UpgradeOptions/includes``; or the `-wal`, `-shm` or `-journal` of a database.
    case leftOut(LeftOut)
    /// A rule leaves it as it is, or none says anything of it.
    case rules
    /// It went while the directory was being read.
    case gone
    /// Without it nobody could log in, or unlock: why.
    case needed(String)
}

/// What came of a whole upgrade, so far if it goes on.
public struct UpgradeSummary: Hashable, Sendable {
    /// How many files were plaintext and are protected now.
    public internal(set) var converted = 0
    /// How many had a weaker class.
    public internal(set) var raised = 0
    /// How many had their class.
    public internal(set) var unchanged = 0
    /// How many are not for an upgrade.
    public internal(set) var skipped = 0
    /// How many of those, by kind, are left out because of ``UpgradeOptions/includes``. A version-control store counts once.
    public internal(set) var leftOut: [LeftOut: Int] = [:]
    /// How many wait for an unlock.
    public internal(set) var queued = 0
    /// Every failure, in order.
    public internal(set) var failures: [UpgradeFailure] = []
    /// The last failure: what the classic loop over a directory kept.
    public var lastError: DataProtectionError? { failures.last?.error }
    /// Whether it was stopped before the end.
    public internal(set) var isStopped = false

    /// Nothing yet.
    package init() {}

    /// One more that was done by itself.
    package mutating func countConverted() { converted += 1 }

    /// One more result.
    package mutating func add(_ result: UpgradeResult) {
        switch result.outcome {
        case .converted: converted += 1
        case .raised: raised += 1
        case .unchanged: unchanged += 1
        case .skipped(let reason):
            skipped += 1
            if case .leftOut(let kind) = reason { leftOut[kind, default: 0] += 1 }
        case .queued: queued += 1
        case .failed(let error): failures.append(UpgradeFailure(path: result.path, error: error))
        }
    }
}

/// A file that an upgrade could not do.
public struct UpgradeFailure: Hashable, Sendable {
    /// The file.
    public let path: FilePath
    /// Why.
    public let error: DataProtectionError
}

/// How an upgrade goes about it.
public struct UpgradeOptions: Hashable, Sendable {
    /// What is converted although it is left out otherwise. The programs that need it cannot use it then.
    public var includes: Set<LeftOut> = []
    /// Nothing is changed: results say what would be done.
    public var isDryRun = false
    /// How many files at a time; nil: as many as there are processors.
    public var jobs: Int?
    /// What cannot be done while locked is noted for the next unlock; otherwise it fails.
    public var queuesWhatIsLocked = true
    /// With the lowest priority.
    public var isBackground = false
    /// Ends at the first file that is locked, with those in hand.
    package var stopsWhenLocked = false

    /// The usual way.
    public init() {}
}
