import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import SystemPackage

/// Copies trees into a backup, with every protected file as it is stored. No key is needed, whatever the lock state.
///
/// Files and links appear whole or not at all, and what an earlier run left is never worse than it was.
package final class BackupPass {
    private let backup: Backup
    private let file: BackupFile
    private let earlier: EarlierCopies
    private var removesDeleted: Bool
    /// Directories that are not for a backup: the keybag's own, and the backup itself.
    private let leftOut: [(path: FilePath, status: stat)]
    private var goesOn: () -> Bool = { true }
    private var receive: (BackupResult) -> Void = { _ in }

    /// - Parameter removesDeleted: whether what is not in the trees any more goes from the backup too.
    /// - Throws: `foreignKeybag` if the backup is of another keybag; `backupNotFound` if it has no class keys yet; `damaged`.
    package init(_ keybag: Keybag, into backup: Backup, removesDeleted: Bool) throws(DataProtectionError) {
        let stored = try backup.load().keybag
        guard stored.uuid == keybag.uuid else {
            throw .because(FileFailure.foreignKeybag(backup.keybagPath, stored.uuid))
        }
        self.backup = backup
        self.removesDeleted = removesDeleted
        earlier = EarlierCopies(backup)
        file = BackupFile(keybag: keybag, stored: stored, backup: backup.path, earlier: earlier)
        leftOut = [
            (try backup.directory.descriptorPath.resolvedName(), try backup.directory.status()),
            (try keybag.directory.resolvedName(), try LowerDirectory(keybag.directory).status()),
        ]
    }

    /// Copies what the roots name, and everything below; a root that is a link is followed.
    ///
    /// - Parameters:
    ///   - goesOn: asked between files; false stops.
    ///   - receive: gets what became of each.
    package func run(
        _ roots: [FilePath], while goesOn: @escaping () -> Bool = { true },
        receive: @escaping (BackupResult) -> Void
    ) {
        self.goesOn = goesOn
        var hasRemoved = false
        self.receive = { result in
            if case .removed = result.outcome { hasRemoved = true }
            receive(result)
        }
        copy(roots)
        guard hasRemoved, goesOn() else { return }
        // What was moved meanwhile, to where this had been already, is without a copy now.
        removesDeleted = false
        self.receive = { if case .copied = $0.outcome { receive($0) } }
        copy(roots)
    }

    private func copy(_ roots: [FilePath]) {
        for root in roots where goesOn() {
            do throws(DataProtectionError) { try copy(root: root) } catch { fail(root, error) }
        }
    }

    private func copy(root: FilePath) throws(DataProtectionError) {
        let (found, place) = (try root.resolved(), try root.resolvedName())
        guard !leftOut.contains(where: { place.starts(with: $0.path) }) else {
            throw .because(TreeFailure.notForBackup(root))
        }
        var to = Descent(backup.directory)
        try to.make(Backup.filesName)
        if let name = place.lastComponent {
            for component in place.components.dropLast() { try to.make(component) }
            // The directory of a mount has no name above it that leads there.
            if found.isDescriptor {
                try copyTree(try LowerDirectory(found), name, &to)
                return try to.flush()
            }
            let source = DirectoryEntry(name, in: try LowerDirectory(found.directory))
            guard let status = try source.directory.status(of: name) else {
                throw .system(root, operation: "lstat", .noSuchFileOrDirectory)
            }
            if let inner = copy(source, status, into: to.directory, isNamed: true) { try copyTree(inner, name, &to) }
        } else {
            try copyTree(try LowerDirectory(place), nil, &to)
        }
        try to.flush()
    }

    /// A directory whose entries are being copied.
    private struct Level {
        let names: [FilePath.Component]
        /// Those that are left.
        var waiting: ArraySlice<FilePath.Component>

        init(_ names: [FilePath.Component]) { (self.names, waiting) = (names, names[...]) }
    }

    /// Copies a directory, and all below, to the directory of that name where `to` has arrived; without a name, to that directory itself.
    ///
    /// - Throws: `system` if the way back up is lost. Everything else is reported.
    private func copyTree(
        _ top: LowerDirectory, _ topName: FilePath.Component?, _ to: inout Descent
    ) throws(DataProtectionError) {
        var from = Descent(top)
        var levels: [Level] = []
        guard begin(top, topName, &to, &levels) else { return }
        while let last = levels.indices.last {
            guard goesOn(), let name = levels[last].waiting.popFirst() else {
                let isTop = levels.count == 1
                let hasName = !isTop || topName != nil
                finish(levels.removeLast().names, from.directory, to.directory, keepsLooks: hasName)
                if !isTop { try from.leave() }
                if hasName { try to.leave() }
                continue
            }
            let source = from.directory
            if source.isUnfinished(name) || Self.isPartOfDownload(name) { continue }
            do throws(DataProtectionError) {
                // Gone since: programs do that all the time.
                guard let status = try source.status(of: name) else { continue }
                let entry = DirectoryEntry(name, in: source)
                guard let inner = copy(entry, status, into: to.directory, isNamed: false) else { continue }
                try from.enter(name, inner)
                if !begin(inner, name, &to, &levels) { try from.leave() }
            } catch {
                fail(source.path.entry(name), error)
            }
        }
    }

    /// Goes into the copy of a directory.
    ///
    /// - Returns: false if that could not be done, which is reported.
    private func begin(
        _ source: LowerDirectory, _ name: FilePath.Component?, _ to: inout Descent, _ levels: inout [Level]
    ) -> Bool {
        do throws(DataProtectionError) {
            let names = try source.names()
            if let name {
                let copy = try to.directory.subdirectory(name).0
                try copy.setMode(0o700)
                try copy.removeUnfinished()
                try to.enter(name, copy)
            } else {
                try to.directory.removeUnfinished()
            }
            levels.append(Level(names))
            return true
        } catch {
            fail(source.path, error)
            return false
        }
    }

    /// Ends the copy of a directory, when all that is in it was copied.
    ///
    /// - Parameter keepsLooks: whether it gets the mode, the times and the attributes of the source.
    private func finish(
        _ names: [FilePath.Component], _ source: LowerDirectory, _ directory: LowerDirectory, keepsLooks: Bool
    ) {
        do throws(DataProtectionError) {
            if removesDeleted, goesOn() {
                for name in Set(try directory.names()).subtracting(names) {
                    try remove(name, in: directory)
                    receive(BackupResult(path: source.path.entry(name), outcome: .removed))
                }
            }
            try directory.flush()
            guard keepsLooks else { return }
            let (original, copy) = (try source.asFile(), try directory.asFile())
            try FileAttributes.copy(from: original, to: copy, keepingOwner: false)
            try directory.setMode(try copy.status().st_mode & 0o3777 | 0o500)
            try directory.flush()
        } catch {
            fail(source.path, error)
        }
    }

    /// Copies a file or a link.
    ///
    /// - Returns: the directory, if that is what it is: it is to be copied then.
    private func copy(
        _ source: DirectoryEntry, _ status: stat, into directory: LowerDirectory, isNamed: Bool
    ) -> LowerDirectory? {
        var result = BackupResult.Outcome.copied
        do throws(DataProtectionError) {
            switch status.st_mode & S_IFMT {
            case S_IFDIR:
                if leftOut.contains(where: { $0.status.isSameItem(as: status) }) { return nil }
                try makeRoom(for: S_IFDIR, source.name, in: directory)
                do throws(DataProtectionError) { return try source.directory.directory(source.name) } catch {
                    guard error.errno == .improperLink else { throw error }
                    result = .otherFileSystem
                }
            case S_IFREG:
                try makeRoom(for: S_IFREG, source.name, in: directory)
                if try !file.copy(source, into: directory) { result = .unchanged }
            case S_IFLNK:
                try makeRoom(for: S_IFLNK, source.name, in: directory)
                if try !copyLink(source, into: directory) { result = .unchanged }
            default: result = .notRegularFile
            }
        } catch {
            // Named: that it is missing must not go unnoticed.
            if !isNamed, case .notProtected = error { result = .notProtected } else { result = .failed(error) }
        }
        let isFile = status.st_mode & S_IFMT == S_IFREG
        let size = if case .otherFileSystem = result { Int64(0) } else { Int64(status.st_size) }
        receive(
            BackupResult(
                path: source.path, outcome: result, size: size, nameCount: isFile ? Int(status.st_nlink) : 1))
        return nil
    }

    /// - Returns: false if it is there.
    private func copyLink(_ source: DirectoryEntry, into directory: LowerDirectory) throws(DataProtectionError) -> Bool
    {
        let text = try source.directory.link(source.name)
        if let there = try directory.status(of: source.name), there.st_mode & S_IFMT == S_IFLNK,
            try directory.link(source.name) == text
        {
            return false
        }
        try directory.makeLink(source.name, to: text, replacing: true)
        return true
    }

    /// `.NAME.protectfs-download-ID-number`: a part of what is still coming. FORMAT.md §2.14.
    private static func isPartOfDownload(_ name: FilePath.Component) -> Bool {
        let bytes = name.bytes
        let digits = bytes.reversed().prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }.count
        // The last of a name that has the right end is ASCII.
        let end = String(decoding: bytes.dropLast(digits).suffix(53), as: UTF8.self)
        return digits > 0 && bytes.count > digits + 53 && bytes[0] == UInt8(ascii: ".")
            && end.wholeMatch(of: /\.protectfs-download-[0-9a-f]{32}-/) != nil
    }

    /// A directory or a link where a file was, a file or a link where a directory was: the copy of what is gone must give way. That of a
    /// link is no loss.
    ///
    /// - Throws: `exists` unless copies of what is gone are to be removed: an attacker who can write to the sources may have put it there.
    private func makeRoom(
        for kind: mode_t, _ name: FilePath.Component, in directory: LowerDirectory
    ) throws(DataProtectionError) {
        guard let there = try directory.status(of: name), ![kind, S_IFLNK].contains(there.st_mode & S_IFMT) else {
            return
        }
        guard removesDeleted else { throw .exists(directory.path.entry(name)) }
        try remove(name, in: directory)
    }

    private func remove(_ name: FilePath.Component, in directory: LowerDirectory) throws(DataProtectionError) {
        try directory.removeTree(name)
        try earlier.remove(of: DirectoryEntry(name, in: directory))
    }

    private func fail(_ path: FilePath, _ error: DataProtectionError) {
        receive(BackupResult(path: path, outcome: .failed(error)))
    }
}
