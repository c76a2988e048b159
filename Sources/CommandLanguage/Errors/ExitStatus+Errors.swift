import DataProtection

extension DataProtectionError: SpokenError {
    /// The exit status that says the same.
    package var exitStatus: ExitStatus {
        switch self {
        case .because(let failure as KeybagFailure): failure.exitStatus
        case .because(let failure as FileFailure): failure.exitStatus
        case .because(let failure as TreeFailure): failure.exitStatus
        case .because: .bug
        case .busy: .notNow
        case .notProtected, .damaged, .unsupported: .damaged
        case .notRegularFile, .hasHardLinks, .keybagUnsafe: .refused
        case .exists: .exists
        case .usedElsewhere: .configuration
        case .system(_, _, let errno): ExitStatus(errno)
        case .cryptography: .bug
        }
    }
}

extension KeybagFailure {
    /// The exit status that says the same.
    fileprivate var exitStatus: ExitStatus {
        switch self {
        case .locked, .throttled, .lockedMeanwhile, .lockIncomplete, .lockUnproven, .keysElsewhere, .keysUnreadable,
            .keysIncomplete, .outOfReachOfLocks, .tooManyNamespaces, .mountUnanswered:
            .notNow
        case .keybagDamaged: .damaged
        case .keyLost, .keybagNotFound, .otherDevice, .deviceKeyUnusable, .noRecoveryCode: .notFound
        case .weakDerivation, .tooManyGenerations, .wrongPasscode, .wrongRecoveryCode: .refused
        case .firstUnlockSecret(_, let problem): problem.exitStatus
        case .hardware(_, let problem): problem.exitStatus
        case .keybagExists, .keybagIntact: .exists
        case .passcodeUnusable: .usage
        case .keyringUnavailable: .unavailable
        case .configuration: .configuration
        case .attemptsNotRecorded, .keybagUnconfirmed: .inputOutput
        }
    }
}

extension FirstUnlockSecretProblem {
    /// The exit status that says the same.
    fileprivate var exitStatus: ExitStatus {
        switch self {
        case .unknown, .outdated, .noRoom: .refused
        case .exists: .exists
        case .absent: .notFound
        case .unusableName: .usage
        }
    }
}

extension HardwareProblem {
    /// The exit status that says the same.
    fileprivate var exitStatus: ExitStatus {
        switch self {
        case .libraryMissing, .deviceMissing: .unavailable
        case .permissionDenied, .ownerHasPassword, .noRoom: .refused
        case .failed: .inputOutput
        case .lockedOut: .notNow
        case .otherModule, .secretMissing, .olderKeybag, .notBound: .notFound
        case .altered: .damaged
        case .alreadyBound: .exists
        }
    }
}

extension FileFailure {
    /// The exit status that says the same.
    fileprivate var exitStatus: ExitStatus {
        switch self {
        case .databaseInUse: .notNow
        case .mangled, .unverifiedOrigin, .otherKey: .damaged
        case .foreignKeybag: .notFound
        case .database, .wouldWeaken, .needsRekey, .ownedByAnother, .ownData: .refused
        case .unknownClass: .usage
        case .handleFailed, .outOfRange, .tooSparse: .inputOutput
        case .notOpen: .bug
        }
    }
}

extension TreeFailure {
    /// The exit status that says the same.
    fileprivate var exitStatus: ExitStatus {
        switch self {
        case .setAside, .keyNotInBackup, .noRoomForEarlierCopy: .notNow
        case .notASegment: .damaged
        case .backupNotFound: .notFound
        case .wrongBackupPassphrase: .refused
        case .notForBackup: .usage
        case .rulesWithin: .configuration
        }
    }
}

extension ExitStatus {
    /// The status for a system call that failed.
    package init(_ errno: Errno) {
        switch errno {
        case .noSuchFileOrDirectory, .notDirectory: self = .notFound
        case .permissionDenied, .notPermitted: self = .refused
        case .fileExists: self = .exists
        case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory, .resourceTemporarilyUnavailable:
            self = .systemRefused
        default: self = .inputOutput
        }
    }
}
