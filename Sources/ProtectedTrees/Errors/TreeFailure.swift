public import DurableFiles
public import ProtectionKeys
public import SystemPackage

/// Why an upgrade, queued work, a log, a backup or a restore failed.
public enum TreeFailure: LayerFailure {
    // MARK: upgrade, queue and logs

    /// Nothing proves that the file was made to be appended to the log `of`: somebody else may have put it there, or queued it. It stays as it is.
    case notASegment(FilePath, of: FilePath)
    /// The process that did this queued work died each time, so it is left alone. The path counts how often.
    case setAside(FilePath)
    /// The rules of an upgrade are kept in the directory that they are for.
    case rulesWithin(FilePath, rules: FilePath)

    // MARK: backups

    /// There is no backup in that directory.
    case backupNotFound(FilePath)
    /// The passphrase does not open the backup; an altered backup keybag cannot be told from it.
    case wrongBackupPassphrase(FilePath)
    /// The backup has not got the class key that the file is under, so that a copy of it could never be opened.
    case keyNotInBackup(FilePath, ProtectionClass, generation: UInt32, backup: FilePath)
    /// The copy of a file does not give way to a new one: it may be the last good one, and its place among earlier copies is taken.
    case noRoomForEarlierCopy(FilePath, _ copy: FilePath, earlier: FilePath)
    /// A keybag's directory, or the backup's own: neither belongs into a backup.
    case notForBackup(FilePath)
}

extension TreeFailure {
    /// ENOKEY for a file whose class key is not in the backup.
    public var errno: Errno {
        switch self {
        case .notASegment: .badMessage
        case .setAside, .noRoomForEarlierCopy: .resourceBusy
        case .rulesWithin, .notForBackup: .invalidArgument
        case .backupNotFound: .noSuchFileOrDirectory
        case .wrongBackupPassphrase: .permissionDenied
        case .keyNotInBackup: Errno(rawValue: 126)  // ENOKEY
        }
    }
}
