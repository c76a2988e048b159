import DurableFiles
import Glibc
import SystemPackage

/// `run/` in a keybag's directory: what processes tell each other while they run. FORMAT.md §2.12.
///
/// Nothing depends on it: everything in it is a hint, and may be removed at any time. A keybag on read-only media has none.
package struct RunDirectory: Hashable, Sendable {
    /// The keybag's directory.
    package let keybag: FilePath

    package static let name = "run"

    /// Of the keybag in `directory`.
    package init(of directory: FilePath) { keybag = directory }

    /// Where it is, whether it is there or not.
    package var path: FilePath { keybag.appending(Self.name) }

    /// Makes it where it is missing, 0700, and checks whose it is.
    ///
    /// - Throws: `keybagNotFound`: none is made where there is no keybag (any more), so that erasing leaves nothing;
    ///   `keybagUnsafe`: it is a link, somebody else's, or others may write there; `system`.
    package func make() throws(DataProtectionError) {
        if try isUsable() { return }
        guard try KeybagFile(directory: keybag).isAnythingThere() else {
            throw .because(KeybagFailure.keybagNotFound(keybag))
        }
        do throws(DataProtectionError) {
            _ = try retrying(path, "mkdir") { path.withPlatformString { mkdir($0, 0o700) } }
        } catch .system(_, _, .fileExists) {}  // another process was quicker
        guard try isUsable() else { throw .system(path, operation: "mkdir", .noSuchFileOrDirectory) }
    }

    /// Whether it is there.
    ///
    /// - Throws: `keybagUnsafe`, `system`.
    package func isUsable() throws(DataProtectionError) -> Bool { try Self.isOurs(path) }

    /// What processes have left in one of its directories, each file open for reading and writing. What is no regular file is passed over.
    ///
    /// - Parameters:
    ///   - directory: ``clients`` or ``mounts``.
    ///   - end: when to stop, in nanoseconds of CLOCK_MONOTONIC: anybody can have put any number of files there.
    ///   - body: gets each file. If it throws, the file counts as one that cannot be opened.
    /// - Returns: whether these are all: there may be more than time, or file descriptors, were enough for, or files that cannot be opened.
    func forEachFile(
        in directory: FilePath, until end: UInt64, _ body: (LowerFile) throws(DataProtectionError) -> Void
    ) -> Bool {
        guard let opened = open(directory) else { return isCertainlyMissing(directory) }
        var areAll = true
        let isOver = try? opened.forEachName { name in
            guard Clock.monotonic() < end else { return false }
            do throws(DataProtectionError) {
                try body(try opened.file(name, flags: O_RDWR, path: directory.appending(name)))
            } catch {
                // Removed by now, or none of ours; else there may be a process behind it.
                if case .notRegularFile = error { return true }
                if error.errno != .noSuchFileOrDirectory { areAll = false }
            }
            return true
        }
        return areAll && isOver ?? false
    }

    /// Where it can be listed: what a link leads to is nobody's business here.
    private func open(_ directory: FilePath) -> LowerDirectory? {
        guard (try? isUsable()) == true, (try? Self.isOurs(directory)) == true, let name = directory.lastComponent
        else { return nil }
        return try? LowerDirectory(path).directory(name)
    }

    /// Whether it is certain that no process has left a file there: the directory is not there, and could have been made.
    private func isCertainlyMissing(_ directory: FilePath) -> Bool {
        var status = stat()
        guard directory.withPlatformString({ lstat($0, &status) }) != 0 else { return false }
        guard errno == ENOENT || errno == ENOTDIR else { return false }
        // On a read-only medium no process can leave one, whatever it holds.
        return keybag.withPlatformString { access($0, W_OK) } == 0 || errno != EROFS
    }

    /// Where the files of clients are. FORMAT.md §2.13.
    package var clients: FilePath { path.appending("clients") }

    /// Where the notes of mounts are. FORMAT.md §2.13.
    package var mounts: FilePath { path.appending("mounts") }

    private static func isOurs(_ path: FilePath) throws(DataProtectionError) -> Bool {
        var status = stat()
        do throws(DataProtectionError) {
            _ = try retrying(path, "lstat") { path.withPlatformString { lstat($0, &status) } }
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return false
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .keybagUnsafe(path, reason: "it is no directory") }
        guard status.st_uid == geteuid() else {
            throw .keybagUnsafe(path, reason: "it belongs to uid \(status.st_uid), not to you (uid \(geteuid()))")
        }
        guard status.st_mode & 0o022 == 0 else { throw .keybagUnsafe(path, reason: "others may write to it") }
        return true
    }

    /// Whether changes that others make in it may pass unnoticed by inotify(7): other machines can have the file system too.
    package var isShared: Bool { SharedFileSystem.holds(path) }
}
