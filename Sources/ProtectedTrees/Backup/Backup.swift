import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// A backup's directory: copies of protected files, and the class keys that open them anywhere. FORMAT.md §2.16.
///
/// There is no index: the tree is the list, so the two cannot differ, and cp and rsync can copy a backup. On the machine that made
/// them, the copies open as they are.
///
/// Held by one writer, or by any number of readers, for as long as this object lives.
package final class Backup: Sendable {
    /// What the backup is held for.
    package enum Use: Sendable {
        /// Writing to it. It is made if it is not there.
        case backup
        /// Reading from it, whichever user owns it.
        case restore
    }

    /// Where it is.
    package let path: FilePath
    package let directory: LowerDirectory

    /// The class keys.
    package static let keybagName: FilePath.Component = "keybag"
    /// The copies.
    package static let filesName: FilePath.Component = "files"
    /// Of the secrets, which are not ours to write.
    package static let secretsName: FilePath.Component = "secrets.sqlite"
    /// Of secrets whose later copies nobody could verify.
    package static let earlierSecretsName: FilePath.Component = "secrets.earlier.sqlite"

    /// Opens the directory, and holds it.
    ///
    /// - Throws: `backupNotFound`; `exists` if there is something in the directory that is no backup; `keybagUnsafe` if others
    ///   may write to it; `busy` while somebody else writes to it, or restores from it; `system`.
    package init(
        at path: FilePath, for use: Use, warn: (ProtectionWarning) -> Void = { _ in }
    ) throws(DataProtectionError) {
        self.path = path
        if use == .backup { try OwnDirectory.make(path) }
        do throws(DataProtectionError) { directory = try LowerDirectory(path) } catch {
            let nothing: [Errno] = [.noSuchFileOrDirectory, .notDirectory]
            throw nothing.contains(error.errno) ? .because(TreeFailure.backupNotFound(path)) : error
        }
        // Opened once, then judged: something else may have got the path by now, and is never asked for again.
        let kind = use == .backup ? LOCK_EX : LOCK_SH
        guard flock(directory.descriptor, kind | LOCK_NB) == 0 else {
            throw errno == EWOULDBLOCK ? .busy(path) : .system(path, operation: "flock", Errno(rawValue: errno))
        }
        let hasKeybag = try Self.hasKeybag(directory)
        if use == .restore, !hasKeybag { throw .because(TreeFailure.backupNotFound(path)) }
        guard use == .backup else { return }
        let own = [Self.filesName, Self.newKeybagName].map(\.string)
        if !hasKeybag, try directory.names().contains(where: { !own.contains($0.string) }) { throw .exists(path) }
        try OwnDirectory.secure(directory, warn: warn)
    }

    // A child that the process is just forking has the descriptor for a moment longer: closing alone may not let go.
    deinit { flock(directory.descriptor, LOCK_UN) }

    /// Of the copy of secrets, bytes.
    private static let maximumSecretsLength = 1 << 30

    /// The copy of secrets of that name in a backup's directory; nil if there is none. No link is followed.
    ///
    /// - Throws: `notRegularFile`; `unsupported` for more than 1 GiB; `system`.
    package static func secrets(
        _ name: FilePath.Component, in directory: LowerDirectory
    ) throws(DataProtectionError) -> [UInt8]? {
        guard try directory.status(of: name) != nil else { return nil }
        let path = directory.path.entry(name)
        let file = try directory.file(name, flags: O_RDONLY, path: path)
        let length = Int(try file.status().st_size)
        try requireSecretsLength(length, path)
        return try file.bytes(at: 0, count: length)
    }

    /// Replaces the copy of secrets of that name, wholly or not at all. It lasts when this returns.
    ///
    /// - Throws: `unsupported` for more than 1 GiB; `system`.
    package static func replaceSecrets(
        _ name: FilePath.Component, by bytes: [UInt8], in directory: LowerDirectory
    ) throws(DataProtectionError) {
        let entry = DirectoryEntry(name, in: directory)
        try requireSecretsLength(bytes.count, entry.path)
        try AtomicReplace.write(bytes, to: entry, through: FilePath.Component("\(name).new")!)
    }

    private static func requireSecretsLength(_ length: Int, _ path: FilePath) throws(DataProtectionError) {
        guard length <= maximumSecretsLength else {
            throw .unsupported(path, what: "a copy of secrets of \(length) bytes")
        }
    }

    /// Whether something is where the copy of secrets would be.
    package func hasSecrets() throws(DataProtectionError) -> Bool { try directory.status(of: Self.secretsName) != nil }

    package static let newKeybagName: FilePath.Component = "keybag.new"

    /// Whether the class keys are there: only the first backup needs an unlocked keybag and a passphrase.
    package func hasKeybag() throws(DataProtectionError) -> Bool { try Self.hasKeybag(directory) }

    /// Whether a directory is a backup. What is in it stays as it is stored: in another class, under another class key, or
    /// with its class keys protected, nobody could restore it.
    ///
    /// - Parameter keybag: of the keybag with that name; nil: of any.
    package static func isOne(_ directory: LowerDirectory, of keybag: KeybagUUID? = nil) -> Bool {
        guard (try? hasKeybag(directory)) == true,
            let file = try? directory.file(keybagName, flags: O_RDONLY, path: directory.path.entry(keybagName)),
            let start = try? file.bytes(at: 0, count: BackupKeybag.magic.count), start == BackupKeybag.magic,
            let bytes = try? file.bytes(at: 0, count: BackupKeybag.maximumLength + 1)
        else { return false }
        do throws(FormatError) {
            let found = try BackupKeybag(decoding: bytes)
            return keybag.map { $0 == found.uuid } ?? true
        } catch {
            if case .damaged = error { return false }
        }
        return true
    }

    /// Whether a directory holds the copies of a backup. What else lies beside a file `keybag`, which anybody can put anywhere, is none of them.
    package static func holdsCopies(_ entry: DirectoryEntry, of keybag: KeybagUUID) -> Bool {
        ([filesName] + EarlierCopies.names).contains(entry.name) && isOne(entry.directory, of: keybag)
    }

    /// The same by a path.
    package static func isOne(_ path: FilePath) -> Bool { (try? LowerDirectory(path)).map { isOne($0) } ?? false }

    private static func hasKeybag(_ directory: LowerDirectory) throws(DataProtectionError) -> Bool {
        guard let status = try directory.status(of: keybagName) else { return false }
        return status.st_mode & S_IFMT == S_IFREG
    }
}
