package import DataProtection
import Glibc
package import SystemPackage

/// A hidden directory of our own below the one that is judged. It goes with all that is in it.
package final class Scratch: Sendable {
    /// Absolute, without links.
    package let path: FilePath
    /// Held while we live: one that nobody holds is a dead process's.
    private let descriptor: Int32
    private static let prefix = ".protectfs-conformance-"

    /// Makes it, and takes those away that dead processes left.
    ///
    /// - Throws: `system` where nothing can be made.
    package init(in parent: FilePath) throws(DataProtectionError) {
        guard let parent = parent.canonical else { throw .failed(parent, "realpath") }
        Self.removeAbandoned(in: parent)
        while true {
            let path = try Self.makeUnique(in: parent)
            let descriptor = path.withPlatformString { open($0, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
            if Self.hold(descriptor, path) {
                (self.path, self.descriptor) = (path, descriptor)
                return
            }
            if descriptor >= 0 { Glibc.close(descriptor) }
        }
    }

    private static func makeUnique(in parent: FilePath) throws(DataProtectionError) -> FilePath {
        var template = parent.appending(prefix + "XXXXXX").withPlatformString {
            Array(UnsafeBufferPointer(start: $0, count: strlen($0) + 1))
        }
        guard mkdtemp(&template) != nil else { throw .failed(parent, "mkdtemp") }
        return FilePath(platformString: template)
    }

    /// Another process may have taken it for abandoned before it was locked; then it is gone, or about to go.
    private static func hold(_ descriptor: Int32, _ path: FilePath) -> Bool {
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK { return false }
        var status = stat()
        return path.withPlatformString { lstat($0, &status) } == 0
    }

    deinit {
        // FUSE gives a file that is removed while it is open a hidden name, and removes that after close(2) has returned.
        for _ in 0..<500 where !Self.remove(path) { usleep(10_000) }
        if descriptor >= 0 { Glibc.close(descriptor) }
    }

    /// Makes a directory in it.
    package func makeDirectory(_ name: String) throws(DataProtectionError) -> FilePath {
        try Self.makeDirectory(name, in: path)
    }

    static func makeDirectory(_ name: String, in place: FilePath) throws(DataProtectionError) -> FilePath {
        let directory = place.appending(name)
        guard directory.withPlatformString({ mkdir($0, 0o700) }) == 0 else { throw .failed(directory, "mkdir") }
        return directory
    }

    /// Removes a directory with what we put into it, as far as that goes.
    ///
    /// - Returns: false if something that is open keeps it from being removed, and a later try may succeed.
    @discardableResult
    static func remove(_ path: FilePath) -> Bool {
        guard let name = path.lastComponent else { return true }
        do throws(DataProtectionError) {
            try LowerDirectory(path.directory).removeTree(name)
            return true
        } catch {
            return error.errno != .directoryNotEmpty
        }
    }

    /// A process that was killed left keys of its throw-away keybag in the ring too.
    private static func removeAbandoned(in parent: FilePath) {
        for name in (try? DirectoryListing.names(of: parent)) ?? [] where name.hasPrefix(prefix) {
            let path = parent.appending(name)
            let other = path.withPlatformString { open($0, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) }
            guard other >= 0 else { continue }
            defer { Glibc.close(other) }
            guard flock(other, LOCK_EX | LOCK_NB) == 0 else { continue }
            unmount(below: path)
            if let keybag = try? Keybag(at: path.appending(Stage.keybagName)) { try? keybag.evictEverything() }
            remove(path)
        }
    }

    /// Its mount lives on.
    private static func unmount(below path: FilePath) {
        for mount in (try? MountTable.own()) ?? [] where mount.point.starts(with: path) {
            let words = ["/usr/bin/env", "fusermount3", "-u", "-z"].map { Array($0.utf8) } + [mount.point.bytes]
            _ = try? CommandProcess(words, environment: [Array("PATH=/usr/bin:/bin".utf8)]).finish()
        }
    }
}

extension DataProtectionError {
    /// The system call that has just failed.
    static func failed(_ path: FilePath, _ operation: String) -> DataProtectionError {
        .system(path, operation: operation, Errno(rawValue: Glibc.errno))
    }
}
