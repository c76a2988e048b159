import DataProtection

extension DataProtectionError: SpokenError {
    /// The exit status that says the same.
    package var exitStatus: ExitStatus {
        switch self {
        case .locked, .busy, .throttled, .lockedMeanwhile, .lockIncomplete, .keysElsewhere, .keysUnreadable, .setAside,
            .outOfReachOfLocks, .tooManyNamespaces, .keyNotInBackup, .databaseInUse, .lockUnproven,
            .keysIncomplete:
            .notNow
        case .notProtected, .mangled, .damaged, .unsupported, .unverifiedOrigin, .notASegment, .keybagDamaged,
            .otherKey:
            .damaged
        case .foreignKeybag, .keyLost, .keybagNotFound, .otherDevice, .deviceKeyUnusable, .noRecoveryCode,
            .backupNotFound:
            .notFound
        case .notRegularFile, .hasHardLinks, .database, .wouldWeaken, .keybagUnsafe, .weakDerivation, .needsRekey,
            .tooManyGenerations, .ownedByAnother:
            .refused
        case .wrongPasscode, .wrongRecoveryCode, .wrongBackupPassphrase: .refused
        case .exists, .keybagExists, .keybagIntact: .exists
        case .passcodeUnusable, .unknownClass, .notForBackup: .usage
        case .keyringUnavailable: .unavailable
        case .configuration, .rulesWithin, .usedElsewhere: .configuration
        case .handleFailed, .attemptsNotRecorded, .outOfRange, .tooSparse, .keybagUnconfirmed: .inputOutput
        case .notOpen, .cryptography: .bug
        case .system(_, _, let errno): ExitStatus(errno)
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
