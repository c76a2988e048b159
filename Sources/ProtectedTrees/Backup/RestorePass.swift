import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import SystemPackage

/// Restores files of a backup under the keybag of the user who restores them, on any machine.
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
        guard try keybag.state() == .unlocked else { throw .locked(keybag, keybag.directory, .complete, .restore) }
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
        guard !selection.isEmpty else { return try restoreTree(files, into: directory, only: []) }
        for path in selection where mayGoOn() {
            do throws(DataProtectionError) {
                try restoreTree(files, into: directory, only: Array(path.lexicallyNormalized().components))
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

    /// A directory whose entries are being restored.
    private struct Level {
        /// The entries that are left.
        var waiting: ArraySlice<FilePath.Component>
        /// Whether the target was made here.
        let isNew: Bool
    }

    /// Restores what is in a directory, and all below; or only what these names, one below the other, lead to. The directories on the
    /// way are made.
    ///
    /// - Throws: `system` if the names lead nowhere, or a way back up is lost. What goes wrong below is reported.
    private func restoreTree(
        _ source: LowerDirectory, into target: LowerDirectory, only names: [FilePath.Component]
    ) throws(DataProtectionError) {
        var (from, to) = (Descent(source), Descent(target))
        var levels = [Level(waiting: try waiting(in: source, only: names.first), isNew: false)]
        while let last = levels.indices.last {
            guard mayGoOn(), let name = levels[last].waiting.popFirst() else {
                let isNew = levels.removeLast().isNew
                do throws(DataProtectionError) { try finish(from.directory, to.directory, isNew) } catch {
                    fail(to.directory.path, error)
                }
                if levels.isEmpty { return }
                try from.leave()
                if conflict != .onlyTry { try to.leave() }
                continue
            }
            let isOnTheWay = levels.count < names.count
            do throws(DataProtectionError) {
                guard let status = try from.directory.status(of: name) else {
                    guard levels.count <= names.count else { continue }
                    throw .system(from.directory.path.entry(name), operation: "lstat", .noSuchFileOrDirectory)
                }
                guard isOnTheWay || status.st_mode & S_IFMT == S_IFDIR else {
                    restore(name, status, of: from.directory, into: to.directory)
                    continue
                }
                let inner = try from.directory.directory(name)
                let waiting = try waiting(in: inner, only: isOnTheWay ? names[levels.count] : nil)
                try from.enter(name, inner)
                do throws(DataProtectionError) {
                    let isNew = try conflict == .onlyTry ? false : to.make(name)
                    levels.append(Level(waiting: waiting, isNew: isNew))
                } catch {
                    try from.leave()
                    throw error
                }
            } catch {
                if levels.count <= names.count { throw error }
                fail(to.directory.path.entry(name), error)
            }
        }
    }

    private func waiting(
        in source: LowerDirectory, only name: FilePath.Component?
    ) throws(DataProtectionError) -> ArraySlice<FilePath.Component> {
        if let name { return [name] }
        return try source.names().filter { !source.isUnfinished($0) }[...]
    }

    private func finish(
        _ source: LowerDirectory, _ target: LowerDirectory, _ isNew: Bool
    ) throws(DataProtectionError) {
        try target.flush()
        guard isNew else { return }
        // Last: a read-only one takes no entries. One that was there keeps what it has.
        try FileAttributes.copy(from: source.asFile(), to: target.asFile(), keepingOwner: false)
        try target.flush()
    }

    /// Restores a file or a link.
    private func restore(
        _ name: FilePath.Component, _ status: stat, of source: LowerDirectory, into target: LowerDirectory
    ) {
        var result = BackupResult.Outcome.copied
        do throws(DataProtectionError) {
            switch status.st_mode & S_IFMT {
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

    /// A copy that was made while locked may turn out only now to be damaged, or the file had lost commits by then: then the earlier one is
    /// brought back.
    private func restoreFile(
        _ copy: DirectoryEntry, to place: DirectoryEntry
    ) throws(DataProtectionError) -> BackupResult.Outcome {
        let earlier = try earlier.copy(of: copy)
        if let earlier, lacksCommits(copy, of: earlier), (try? file.restore(earlier, to: place, conflict)) != nil {
            let reason = "it lacks commits that the earlier copy has"
            return .restoredEarlier(.damaged(copy.path, .head, reason: reason, offset: nil))
        }
        do throws(DataProtectionError) {
            return try file.restore(copy, to: place, conflict) ? .copied : .unchanged
        } catch {
            switch error {
            case .damaged, .because(FileFailure.otherKey), .because(FileFailure.mangled), .notProtected: break
            default: throw error
            }
            guard let earlier else { throw error }
            _ = try file.restore(earlier, to: place, conflict)
            return .restoredEarlier(error)
        }
    }

    /// Whether an earlier copy says that it is a later state of the same file. It counts only if it opens.
    private func lacksCommits(_ copy: DirectoryEntry, of earlier: DirectoryEntry) -> Bool {
        let states = [earlier, copy].compactMap { entry in
            try? ProtectedFileInfo.state(
                of: entry.directory.file(entry.name, flags: O_RDONLY, path: entry.path))
        }
        return states.count == 2 && states[0].isLater(than: states[1])
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
