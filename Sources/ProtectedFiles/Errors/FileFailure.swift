public import DurableFiles
public import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

/// Why a protected file could not be used or made as it was asked for.
public enum FileFailure: LayerFailure {
    // MARK: the file

    /// It was a protected file, and another program has changed its beginning: it cannot be read, and must not be taken for plaintext.
    case mangled(FilePath, Mangling)
    /// The file belongs to a keybag that is not available to this user.
    case foreignKeybag(FilePath, KeybagUUID)
    /// The file key does not open under the class key of this generation. Another device that has a copy of the keybag made a key with
    /// the same number, or somebody altered the file and made its check right: the two cannot be told apart.
    case otherKey(FilePath, ProtectionClass, generation: UInt32)
    /// Somebody else could have made the file, and would know its file key. A `completeUnlessOpen` file of unverified origin is
    /// refused for writing and for a class change; a caller that asked for a verified origin gets this for other files, too.
    case unverifiedOrigin(FilePath, OriginMark.Verdict)
    /// 2^31 seals were made under the file's key; it must be encrypted anew.
    case needsRekey(FilePath)

    // MARK: the handle

    /// An earlier change or flush through this handle failed; the file is as its last acknowledged commit left it, or a later one.
    case handleFailed(FilePath, Errno)
    /// The handle was closed, or opened for reading only.
    case notOpen(FilePath, for: AttemptedOperation)
    /// Larger than 2^60 bytes, or an offset below 0.
    case outOfRange(FilePath)
    /// It takes `stored` bytes on disk and would take `needed`, for which there is no room: a protected file keeps 32 holes at most.
    case tooSparse(FilePath, stored: UInt64, needed: UInt64)

    // MARK: making a protected file, and changing its class

    /// A SQLite database, or the `-wal`, `-shm` or `-journal` of the database `of`: SQLite could not use it any more.
    case database(FilePath, of: FilePath)
    /// A SQLite database, beside which the file `holding` may hold data that is not in it yet.
    case databaseInUse(FilePath, holding: FilePath)
    /// Without it in clear nobody could unlock a keybag, or bring one back: a keybag's file, a recovery export, a device key; or the other way
    /// round a key that is to stay protected.
    case ownData(FilePath)
    /// The file belongs to another user, who would be able to read its plaintext.
    case ownedByAnother(FilePath, uid: UInt32)
    /// A weaker class than the file has, without saying so explicitly.
    case wouldWeaken(FilePath, from: ProtectionClass, to: ProtectionClass)
    /// A protection class that there is not, asked for by name.
    case unknownClass(FilePath, name: String)
}

extension FileFailure {
    /// ENOKEY for a file of another keybag, and for one under another key.
    public var errno: Errno {
        switch self {
        case .mangled, .unverifiedOrigin: .badMessage
        case .foreignKeybag, .otherKey: Errno(rawValue: 126)  // ENOKEY
        case .needsRekey, .outOfRange: .fileTooLarge
        case .handleFailed(_, let errno): errno
        case .notOpen: .badFileDescriptor
        case .tooSparse: .noSpace
        case .database, .wouldWeaken, .unknownClass: .invalidArgument
        case .databaseInUse: .resourceBusy
        case .ownedByAnother, .ownData: .notPermitted
        }
    }
}
