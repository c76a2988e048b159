import Glibc
import SystemPackage

/// A directory that is being filled under a hidden name beside the one it is to have.
///
/// It is locked while its maker lives. The next process that needs the name removes what a dead process left, if it surely is that:
/// somebody who may rename things in the outer directory could have given the name to any directory. Everything is done by the
/// descriptors of both directories, and only empty directories are removed by name. So such a person has nothing removed elsewhere.
package struct UnfinishedDirectory {
    package let path: FilePath
    package let directory: LowerDirectory
    private let parent: LowerDirectory
    private var name: FilePath.Component { path.lastComponent! }

    /// Makes `.NAME.protectfs-unfinished-N` beside `target`, mode 0700.
    package init(for target: FilePath) throws(DataProtectionError) {
        parent = try LowerDirectory(target.directory)
        var number = 0
        while true {
            let path = target.beside(unfinished: "\(number)")
            let name = path.lastComponent!
            do throws(DataProtectionError) {
                if try !parent.subdirectory(name).isNew {
                    guard number < 1000 else { throw .exists(path) }
                    if !Self.removeAbandoned(name, in: parent) { number += 1 }
                    continue
                }
            } catch {
                // Something else has the name, or its directory got another one while it was being opened.
                let passing: [Errno] = [.fileExists, .noSuchFileOrDirectory]
                guard passing.contains(error.errno), number < 1000 else {
                    // Ours, if it was made and could not be opened; empty in any case.
                    try? parent.unlink(name, isDirectory: true)
                    throw error
                }
                number += 1
                continue
            }
            do throws(DataProtectionError) {
                // Another directory under this name is not ours to fill, nor to empty.
                if let directory = try Self.locked(name, in: parent), try directory.isAsMade(in: parent) {
                    (self.path, self.directory) = (path, directory)
                    return
                }
            } catch {
                try? parent.unlink(name, isDirectory: true)
                throw error
            }
            number += 1
            guard number < 1000 else { throw .exists(path) }
        }
    }

    /// The directory under that name, locked; nil if somebody else has it, or has just taken it away: before its maker has locked it, it
    /// looks like one that a dead process left.
    private static func locked(
        _ name: FilePath.Component, in parent: LowerDirectory
    ) throws(DataProtectionError) -> LowerDirectory? {
        do throws(DataProtectionError) {
            let directory = try parent.directory(name)
            _ = try retrying(directory.path, "flock") { flock(directory.descriptor, LOCK_EX | LOCK_NB) }
            return try isThat(directory, name, in: parent) ? directory : nil
        } catch {
            let others: [Errno] = [.noSuchFileOrDirectory, .wouldBlock, .notDirectory, .tooManySymbolicLinkLevels]
            guard others.contains(error.errno) else { throw error }
            return nil
        }
    }

    /// Whether the directory has that name.
    private static func isThat(
        _ directory: LowerDirectory, _ name: FilePath.Component, in parent: LowerDirectory
    ) throws(DataProtectionError) -> Bool {
        guard let named = try parent.status(of: name) else { return false }
        return try directory.status().isSameItem(as: named)
    }

    /// Gives the directory its name, and makes that last.
    ///
    /// - Throws: `exists` if there is something under that name.
    package func publish(as target: FilePath) throws(DataProtectionError) {
        guard let newName = target.lastComponent else { throw .exists(target) }
        do throws(DataProtectionError) {
            // rename(2) would also replace an empty directory that somebody has just made: nothing is lost by that.
            guard try parent.status(of: newName) == nil else { throw .exists(target) }
            try parent.rename(name, to: newName)
        } catch {
            let taken: [Errno] = [.directoryNotEmpty, .notDirectory, .fileExists]
            throw taken.contains(error.errno) ? .exists(target) : error
        }
        try makeLast(as: target)
    }

    /// Makes the name last that the directory has got; what may not last goes, nobody has used it yet.
    package func makeLast(as target: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try AtomicReplace.flushDirectory(target.directory)
        } catch {
            if let newName = target.lastComponent { withdraw(newName) }
            throw error
        }
    }

    /// Under a hidden name again, if it can have one that nobody else has by now, it is taken away.
    private func withdraw(_ newName: FilePath.Component) {
        guard (try? Self.isThat(directory, newName, in: parent)) == true else { return }
        for number in 0...1000 {
            let hidden = newName.unfinished("\(number)")
            do throws(DataProtectionError) {
                try parent.renameIfFree(newName, to: hidden)
                return Self.remove(directory, hidden, in: parent)
            } catch .exists {
                continue
            } catch {
                return
            }
        }
    }

    /// Takes the directory away with all that is in it, as far as that goes; nothing that somebody else has made under its name, since
    /// it has got another one.
    package func remove() {
        if (try? Self.isThat(directory, name, in: parent)) == true { Self.remove(directory, name, in: parent) }
    }

    /// Empties the directory by its descriptor: something else may get its name at any moment, and stays unless it is empty.
    private static func remove(_ directory: LowerDirectory, _ name: FilePath.Component, in parent: LowerDirectory) {
        try? directory.removeContents()
        try? parent.unlink(name, isDirectory: true)
    }

    /// - Returns: whether the name is free now.
    private static func removeAbandoned(_ name: FilePath.Component, in parent: LowerDirectory) -> Bool {
        guard let other = try? locked(name, in: parent), (try? isSurelyOurs(other, in: parent)) == true else {
            return false
        }
        remove(other, name, in: parent)
        return withExtendedLifetime(other) {
            if case .some(.none) = try? parent.status(of: name) { true } else { false }
        }
    }

    /// Whether a process of this user made the directory under its hidden name: mode 0700, the user's own, and in a directory where
    /// nobody else can rename it.
    private static func isSurelyOurs(
        _ directory: LowerDirectory, in parent: LowerDirectory
    ) throws(DataProtectionError) -> Bool {
        let (own, outer) = (try directory.status(), try parent.status())
        return own.st_uid == geteuid() && own.st_mode & 0o777 == 0o700
            && (outer.st_uid == geteuid() || outer.st_uid == 0)
            && (outer.st_mode & 0o022 == 0 || outer.st_mode & S_ISVTX != 0)
    }
}
