package import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

extension FileFailure {
    /// What happened and where: lower case, no full stop, paths quoted.
    package var message: String {
        switch self {
        case .mangled(let path, let mangling):
            "\(quoted(path)) was a protected file until another program changed it: \(mangling.spoken)"
        case .foreignKeybag(let path, let uuid):
            "\(quoted(path)) belongs to keybag \(uuid), which is not available to you"
        case .otherKey(let path, let protectionClass, let generation):
            "\(quoted(path)) does not open under class key \(protectionClass.shortName), generation \(generation), of its keybag: "
                + "another device made a key with that number, or the file was altered on purpose"
        case .unverifiedOrigin(let path, _): "\(quoted(path)) could have been made by somebody else"
        case .needsRekey(let path): "\(quoted(path)) has used up its key"
        case .handleFailed(let path, let errno):
            "\(quoted(path)) cannot be used any more after an earlier error: \(errno.spoken)"
        case .notOpen(let path, let operation): "\(quoted(path)) is not open for this: \(operation.spoken)"
        case .outOfRange(let path): "\(quoted(path)) would be too large"
        case .tooSparse(let path, let stored, let needed):
            "\(quoted(path)) takes \(spoken(bytes: stored)) on disk and would take \(spoken(bytes: needed)), which do not fit: "
                + "a protected file keeps 32 holes at most"
        case .database(let path, let database):
            path == database
                ? "\(quoted(path)) is a SQLite database; SQLite could not open it any more"
                : "\(quoted(path)) belongs to the SQLite database \(quoted(database))"
        case .databaseInUse(let path, let holding):
            "\(quoted(path)) is a SQLite database, and \(quoted(holding)) may hold data that is not in it yet"
        case .ownData(let path): "\(quoted(path)) stays as it is: without it nobody could unlock, or restore"
        case .wouldWeaken(let path, let from, let to):
            "\(quoted(path)) would be weaker: it is \(from.shortName), not \(to.shortName)"
        case .unknownClass(let path, let name):
            "\(quoted(path)) cannot have the class \(quoted(name)): there is no class of that name"
        case .ownedByAnother(let path, let uid):
            "\(quoted(path)) belongs to user \(uid), who could read its plaintext; it is left protected"
        }
    }

    /// Why, if more is known than what the message begins with.
    var reason: String? {
        switch self {
        case .mangled(_, let mangling): mangling.spoken
        case .handleFailed(_, let errno): errno.spoken
        default: nil
        }
    }

    /// What to type next, if anything helps. Names only commands that exist.
    package var hint: String? {
        switch self {
        case .mangled: "restore the file from a backup, and keep this damaged file until the restored file opens"
        case .foreignKeybag: "name the directory of its keybag: --keybag DIR"
        case .otherKey: "if another device has a copy of this keybag and rotated it, read the file there"
        case .unverifiedOrigin(let path, _):
            "if you trust its contents, copy them to a new file: protectfs cat \(quoted(path)) | protectfs write NEW"
        case .wouldWeaken: "to allow that: --allow-weaker"
        case .ownedByAnother: "if its owner may read the plaintext: --allow-other-owner"
        case .needsRekey(let path): "give it a new one: protectfs class --rekey \(quoted(path))"
        case .tooSparse: "make room, or split the file into parts with 32 holes each"
        case .database(let path, let database):
            path == database
                ? "protect a copy of it, made with the .backup command of sqlite3; or, if SQLite does not have to open it: "
                    + "protectfs protect --include databases \(quoted(path))"
                : "close the programs that use the database, then protect the database itself"
        case .databaseInUse(let path, _):
            "close the programs that use it, then run: sqlite3 \(quoted(path)) 'PRAGMA journal_mode=DELETE'"
        default: nil
        }
    }
}
