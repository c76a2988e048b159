import Glibc
import SystemPackage

/// A directory that is being filled under a hidden name beside the one it is to have.
///
/// It is locked while its maker lives: one that a dead process left is taken away by the next who needs the name.
struct UnfinishedDirectory {
    let path: FilePath
    private let directory: LowerFile

    /// Makes `.NAME.protectfs-unfinished-N` beside `target`, mode 0700.
    init(for target: FilePath) throws(DataProtectionError) {
        var number = 0
        while true {
            let path = target.beside(unfinished: "\(number)")
            do throws(DataProtectionError) {
                _ = try retrying(path, "mkdir") { path.withPlatformString { mkdir($0, 0o700) } }
            } catch {
                guard error.errno == .fileExists, number < 1000 else { throw error }
                if !Self.removeAbandoned(path) { number += 1 }
                continue
            }
            do throws(DataProtectionError) {
                if let directory = try Self.locked(path) {
                    (self.path, self.directory) = (path, directory)
                    return
                }
            } catch {
                _ = path.withPlatformString { rmdir($0) }
                throw error
            }
            number += 1
        }
    }

    /// The directory under that name, locked; nil if somebody else has it, or has just taken it away: before its maker has locked it, it
    /// looks like one that a dead process left.
    private static func locked(_ path: FilePath) throws(DataProtectionError) -> LowerFile? {
        do throws(DataProtectionError) {
            let directory = try LowerFile(path, flags: O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            _ = try retrying(path, "flock") { flock(directory.descriptor, LOCK_EX | LOCK_NB) }
            return try isThat(directory, path) ? directory : nil
        } catch {
            guard error.errno == .noSuchFileOrDirectory || error.errno == .wouldBlock else { throw error }
            return nil
        }
    }

    /// Whether the directory has that name.
    private static func isThat(_ directory: LowerFile, _ path: FilePath) throws(DataProtectionError) -> Bool {
        let own = try directory.status()
        var status = stat()
        _ = try retrying(path, "lstat") { path.withPlatformString { lstat($0, &status) } }
        return (status.st_dev, status.st_ino) == (own.st_dev, own.st_ino)
    }

    /// Gives the directory its name, and makes that last.
    ///
    /// - Throws: `exists` if there is something under that name.
    func publish(as target: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            // rename(2) would also replace an empty directory that somebody has just made: nothing is lost by that.
            var status = stat()
            guard target.withPlatformString({ lstat($0, &status) }) != 0 else { throw .exists(target) }
            try AtomicReplace.rename(path, to: target)
        } catch {
            let taken: [Errno] = [.directoryNotEmpty, .notDirectory, .fileExists]
            throw taken.contains(error.errno) ? .exists(target) : error
        }
        try makeLast(as: target)
    }

    /// Makes the name last that the directory has got; what may not last goes, nobody has used it yet.
    func makeLast(as target: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try AtomicReplace.flushDirectory(target.directory)
        } catch {
            withdraw(target)
            throw error
        }
    }

    /// Under a hidden name again, if it can have one that nobody else has by now, it is taken away.
    private func withdraw(_ target: FilePath) {
        guard (try? Self.isThat(directory, target)) == true, let name = target.lastComponent,
            let parent = try? LowerDirectory(target.directory)
        else { return }
        for number in 0...1000 {
            let hidden = target.beside(unfinished: "\(number)")
            do throws(DataProtectionError) {
                try parent.renameIfFree(name, to: hidden.lastComponent!)
                return Self.remove(hidden)
            } catch .exists {
                continue
            } catch {
                return
            }
        }
    }

    /// Takes the directory away with all that is in it, as far as that goes; nothing that somebody else has made under its name, since
    /// it has got another one.
    func remove() { if (try? Self.isThat(directory, path)) == true { Self.remove(path) } }

    private static func removeAbandoned(_ path: FilePath) -> Bool {
        // In somebody else's directory, links would lead out of it while it is emptied.
        guard let other = try? locked(path), (try? other.status().st_uid) == geteuid() else { return false }
        remove(path)
        return withExtendedLifetime(other) { !OwnDirectory.exists(path) }
    }

    private static func remove(_ path: FilePath) {
        var status = stat()
        guard path.withPlatformString({ lstat($0, &status) }) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            _ = path.withPlatformString { unlink($0) }
            return
        }
        _ = path.withPlatformString { chmod($0, 0o700) }
        for name in (try? DirectoryListing.components(of: path)) ?? [] { remove(path.appending(name)) }
        _ = path.withPlatformString { rmdir($0) }
    }
}
