import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// Brings files of a backup back, under the keybag of whoever does it, on any machine.
///
/// Names come from directories, one by one, and no link is followed on either side: nothing is written outside the target.
package final class RestorePass {
    private let backup: Backup
    private let file: RestoredFile
    private let earlier: EarlierCopies
    private let conflict: RestoredFile.Conflict
    private var goesOn: () -> Bool = { true }
    private var receive: (BackupResult) -> Void = { _ in }
    private var isLocked = false

    /// What is done where a name is taken, and whether anything is.
    package enum Mode: Sendable {
        /// What is there stays.
        case new
        /// Files and links that are there give way.
        case replacing
        /// Everything is opened, and nothing gets a name: whether the backup is whole.
        case onlyTrying
    }

    /// - Parameter keybag: the restorer's own.
    /// - Throws: `locked` unless it is unlocked.
    package init(
        _ backup: Backup, _ opened: OpenedBackup, into keybag: Keybag, _ mode: Mode
    ) throws(DataProtectionError) {
        guard try keybag.state() == .unlocked else { throw keybag.lockedError(keybag.directory, .complete, .restore) }
        self.backup = backup
        earlier = EarlierCopies(backup)
        file = RestoredFile(opened: opened, keybag: keybag)
        conflict =
            switch mode {
            case .new: .refuse
            case .replacing: .replace
            case .onlyTrying: .onlyTry
            }
    }

    /// Brings back what the paths name, and everything below; without paths, everything.
    ///
    /// - Parameters:
    ///   - selection: absolute paths as they were when they were backed up.
    ///   - target: made if it is not there. `/a/b` becomes `target/a/b`.
    ///   - goesOn: asked between files; false stops. So does a lock.
    ///   - receive: gets what became of each, by its new path.
    package func run(
        _ selection: [FilePath] = [], to target: FilePath, while goesOn: @escaping () -> Bool = { true },
        receive: @escaping (BackupResult) -> Void
    ) throws(DataProtectionError) {
        self.goesOn = goesOn
        self.receive = receive
        isLocked = false
        let files: LowerDirectory
        do throws(DataProtectionError) { files = try backup.directory.directory(Backup.filesName) } catch {
            // A backup of nothing yet.
            guard error.errno == .noSuchFileOrDirectory, selection.isEmpty else { throw error }
            return
        }
        let directory = try room(at: target)
        guard !selection.isEmpty else { return try restoreContents(of: files, into: directory) }
        for path in selection where mayGoOn() {
            do throws(DataProtectionError) {
                try restore(path.lexicallyNormalized().components.map { $0 }, of: files, into: directory)
            } catch {
                fail(path, error)
            }
        }
    }

    /// The target, made if need be; to try only, the nearest directory above that is there.
    private func room(at target: FilePath) throws(DataProtectionError) -> LowerDirectory {
        guard conflict == .onlyTry else {
            try OwnDirectory.make(target)
            return try LowerDirectory(target)
        }
        var place = target
        while !place.isEmpty, !OwnDirectory.exists(place), place.removeLastComponent() {}
        return try LowerDirectory(place.isEmpty ? "." : place)
    }

    private func mayGoOn() -> Bool { !isLocked && goesOn() }

    /// What these names, one below the other, lead to. The directories on the way are made.
    private func restore(
        _ names: [FilePath.Component], of source: LowerDirectory, into target: LowerDirectory
    ) throws(DataProtectionError) {
        guard let name = names.first else { return try restoreContents(of: source, into: target) }
        guard names.count > 1 else {
            guard let status = try source.status(of: name) else {
                throw .system(source.path.entry(name), operation: "lstat", .noSuchFileOrDirectory)
            }
            restore(name, status, of: source, into: target)
            return try target.flush()
        }
        try restoreDirectory(name, of: source, into: target) { source, target throws(DataProtectionError) in
            try restore(Array(names.dropFirst()), of: source, into: target)
        }
        try target.flush()
    }

    private func restoreContents(
        of source: LowerDirectory, into target: LowerDirectory
    ) throws(DataProtectionError) {
        for name in try source.names() where mayGoOn() && !source.isUnfinished(name) {
            guard let status = try source.status(of: name) else { continue }
            restore(name, status, of: source, into: target)
        }
        try target.flush()
    }

    private func restore(
        _ name: FilePath.Component, _ status: stat, of source: LowerDirectory, into target: LowerDirectory
    ) {
        var result = BackupResult.Outcome.copied
        do throws(DataProtectionError) {
            switch status.st_mode & S_IFMT {
            case S_IFDIR:
                return try restoreDirectory(name, of: source, into: target) {
                    source, target throws(DataProtectionError) in
                    try restoreContents(of: source, into: target)
                }
            case S_IFREG:
                result = try restoreFile(DirectoryEntry(name, in: source), to: DirectoryEntry(name, in: target))
            case S_IFLNK: if try !restoreLink(name, of: source, into: target) { result = .unchanged }
            default: result = .notRegularFile
            }
        } catch {
            result = .failed(error)
            isLocked = isLocked || error.isLocked
        }
        receive(BackupResult(path: target.path.entry(name), outcome: result, size: Int64(status.st_size)))
    }

    /// A copy that was made while locked may turn out only now to be damaged: then the earlier one is brought back.
    private func restoreFile(
        _ copy: DirectoryEntry, to place: DirectoryEntry
    ) throws(DataProtectionError) -> BackupResult.Outcome {
        do throws(DataProtectionError) {
            return try file.restore(copy, to: place, conflict) ? .copied : .unchanged
        } catch {
            switch error {
            case .damaged, .otherKey, .mangled, .notProtected: break
            default: throw error
            }
            guard let earlier = try earlier.copy(of: copy) else { throw error }
            _ = try file.restore(earlier, to: place, conflict)
            return .restoredEarlier(error)
        }
    }

    private func restoreDirectory(
        _ name: FilePath.Component, of source: LowerDirectory, into target: LowerDirectory,
        _ body: (LowerDirectory, LowerDirectory) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        let from = try source.directory(name)
        guard conflict != .onlyTry else { return try body(from, target) }
        let (directory, isNew) = try target.subdirectory(name)
        try body(from, directory)
        guard isNew else { return }
        // Last: a read-only one takes no entries. One that was there keeps what it has.
        try FileAttributes.copy(from: from.asFile(), to: directory.asFile(), keepingOwner: false)
        try directory.flush()
    }

    /// - Returns: false if it is there.
    private func restoreLink(
        _ name: FilePath.Component, of source: LowerDirectory, into target: LowerDirectory
    ) throws(DataProtectionError) -> Bool {
        let text = try source.link(name)
        guard conflict != .onlyTry else { return true }
        let there = try target.status(of: name)
        let isLink = there.map { $0.st_mode & S_IFMT == S_IFLNK } ?? false
        if isLink, try target.link(name) == text { return false }
        // Nothing authenticates a link in a backup, so that it takes the place of a link only.
        try target.makeLink(name, to: text, replacing: conflict == .replace && isLink)
        return true
    }

    private func fail(_ path: FilePath, _ error: DataProtectionError) {
        isLocked = isLocked || error.isLocked
        receive(BackupResult(path: path, outcome: .failed(error)))
    }
}
