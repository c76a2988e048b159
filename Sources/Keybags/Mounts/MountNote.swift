import DurableFiles
import Glibc
import ProtectionKeys
import Synchronization
import SystemPackage

/// A mount that shows files of a keybag as plaintext, as its server wrote it down: `run/mounts/PID.N`. FORMAT.md §2.13.
///
/// The kernel keeps pages of the plaintext, and only the server can make it drop them. By the note a lock knows of a mount whose server
/// does not live any more. The first byte of the note is locked for as long as the server lives. A note is removed when its mount has gone.
package struct MountNote: Hashable, Sendable {
    /// The server's process id, as it is numbered where it runs.
    package var server: Int32
    /// `mnt_id` of proc_pid_fdinfo(5).
    package var mount: UInt64
    /// The device number of the mount's files, as `major:minor` in decimal.
    package var device: String
    /// The inode number of the mount namespace: /proc/PID/ns/mnt.
    package var namespace: UInt64
    /// 16 bytes.
    package var boot: [UInt8]
    package var point: FilePath

    /// The type that /proc/PID/mountinfo names.
    package static let type = "fuse.protectfs"

    /// The mount that this process has just made.
    ///
    /// - Parameter point: where it is, absolute and without links.
    /// - Throws: `system` with ENOENT if no mount of protectfs is there.
    package init(at point: FilePath) throws(DataProtectionError) {
        let mounts = try MountTable.seen().mounts
        guard let mount = mounts.last(where: { $0.point == point && $0.type == Self.type }) else {
            throw .system(point, operation: "mount", .noSuchFileOrDirectory)
        }
        (server, self.mount, device) = (getpid(), mount.id, mount.device)
        (namespace, boot, self.point) = (Self.namespace(of: "self") ?? 0, Clock.bootID(), point)
    }

    /// - Parameter process: its number, or `self`.
    static func namespace(of process: String) -> UInt64? {
        var status = stat()
        return stat("/proc/\(process)/ns/mnt", &status) == 0 ? UInt64(status.st_ino) : nil
    }

    // MARK: text

    /// No note is longer, in bytes.
    fileprivate static let longest = 8192

    private static let words = ["server", "mount", "device", "namespace", "boot", "point"]

    /// Six lines; the point, which can have any bytes in its name, comes last.
    package var encoded: [UInt8] {
        let values = ["\(server)", "\(mount)", device, "\(namespace)", Hexadecimal.text(boot), ""]
        let lines = zip(Self.words, values).map { "\($0) \($1)" }
        return Array(lines.joined(separator: "\n").utf8) + point.bytes
    }

    /// Nil if it is none.
    package init?(decoding bytes: [UInt8]) {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 5, omittingEmptySubsequences: false)
        guard lines.count == 6 else { return nil }
        var values: [[UInt8]] = []
        for (line, word) in zip(lines, Self.words) {
            guard line.starts(with: Array("\(word) ".utf8)) else { return nil }
            values.append(Array(line.dropFirst(word.utf8.count + 1)))
        }
        let texts = values.map { String(decoding: $0, as: UTF8.self) }
        guard let server = Int32(texts[0]), let mount = UInt64(texts[1]), let namespace = UInt64(texts[3]),
            let boot = Hexadecimal.bytes(texts[4]), boot.count == 16, values[5].first == UInt8(ascii: "/"),
            !values[5].contains(0)
        else { return nil }
        (self.server, self.mount, device, self.namespace) = (server, mount, texts[2], namespace)
        (self.boot, point) = (boot, FilePath(bytes: values[5]))
    }
}

/// The note of this process's mount.
package final class HeldMountNote: Sendable {
    private let note: MountNote
    private let run: RunDirectory
    /// Nil: the server has ended.
    private let file: Mutex<LowerFile?>
    private let mark: Mutex<ServerMark?>
    package var path: FilePath { file.withLock { $0?.path ?? "" } }

    /// Writes it down.
    ///
    /// - Returns: nil on a read-only medium, where nobody can leave a note.
    /// - Throws: `system`, for example where the disk is full.
    package static func hold(
        _ note: MountNote, inKeybag keybag: FilePath
    ) throws(DataProtectionError) -> HeldMountNote? {
        do throws(DataProtectionError) { return try HeldMountNote(note, in: RunDirectory(of: keybag)) } catch {
            guard error.errno == .readOnlyFileSystem else { throw error }
            return nil
        }
    }

    /// Writes down that this process serves the mount of another note.
    ///
    /// - Parameter path: of that note; empty where nobody can leave one.
    /// - Throws: `system` with ENOENT if there is none, and as ``hold(_:inKeybag:)``.
    package static func hold(
        after path: FilePath, inKeybag keybag: FilePath
    ) throws(DataProtectionError) -> HeldMountNote? {
        if path.isEmpty { return nil }
        let bytes = try LowerFile(path, flags: O_RDONLY | O_NOFOLLOW).bytes(at: 0, count: MountNote.longest)
        guard var note = MountNote(decoding: bytes) else {
            throw .system(path, operation: "read", .badMessage)
        }
        note.server = getpid()
        return try hold(note, inKeybag: keybag)
    }

    private init(_ note: MountNote, in run: RunDirectory) throws(DataProtectionError) {
        (self.note, self.run) = (note, run)
        file = Mutex(try Self.make(note, in: run, at: nil))
        mark = Mutex(ServerMark(ofKeybag: run.keybag))
    }

    /// - Parameter first: a path to try before others.
    private static func make(
        _ note: MountNote, in run: RunDirectory, at first: FilePath?
    ) throws(DataProtectionError) -> LowerFile {
        try run.make()
        _ = run.mounts.withPlatformString { mkdir($0, 0o700) }  // what fails is seen when the file is made
        let names = (1...8).map { run.mounts.appending("\(note.server).\($0)") }
        for path in (first.map { [$0] } ?? []) + names {
            do throws(DataProtectionError) {
                let file = try LowerFile(path, flags: O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
                // A process that sees the note before it is locked takes it for that of a dead server.
                guard try file.tryByteLock(0, .exclusive), try file.status().st_nlink > 0 else { continue }
                try file.write(note.encoded, at: 0)
                return file
            } catch .system(_, _, .fileExists) {}  // left by a server of the same number
        }
        throw .busy(run.mounts)
    }

    /// Writes it down anew if it has gone: `run` may be removed at any time, and a lock must know of the mount all the same. Under the same name,
    /// which the guardian knows, if that is free. What fails is tried again at the next lock or unlock.
    package func makeAgain() {
        file.withLock { file in
            guard let old = file else { return }
            var named = stat()
            // Nothing is left in a keybag that was erased.
            guard (try? KeybagFile(directory: run.keybag).isAnythingThere()) == true else { return }
            let isThere = old.path.withPlatformString { lstat($0, &named) } == 0
            if isThere, let own = try? old.status(), named.isSameItem(as: own) { return }
            guard let again = try? Self.make(note, in: run, at: old.path) else { return }
            try? old.close()
            file = again
        }
    }

    /// The server ends: nobody answers requests of the mount any more.
    ///
    /// The note stays if the mount is there, or anybody has files of it open: somebody has cut its connection.
    package func end() {
        file.withLock { file in
            guard let ended = file.take() else { return }
            // First: a mark without a note would be a server that a lock cannot find.
            mark.withLock { $0 = nil }
            if !MountHolder.mayRemain(of: note) { try? AtomicReplace.remove(ended.path) }
            try? ended.close()
        }
    }
}

extension MountNote {
    /// Removes the notes of mounts that are gone and whose servers have died, as the next lock would. Gives up after a second.
    ///
    /// - Parameter keybag: the keybag's directory.
    package static func removeEnded(ofKeybag keybag: FilePath) {
        for found in FoundMountNote.all(ofKeybag: keybag, until: Clock.monotonic() + 1_000_000_000).notes
        where !found.isServed && !MountHolder.mayRemain(of: found.note) { found.remove() }
    }
}

extension MountNote {
    /// Removes the notes of a mount whose servers have died, when those have closed everything. A mount has several if a server died that had just taken
    /// the place of another.
    ///
    /// - Parameters:
    ///   - path: one of them.
    ///   - isCleared: drops the pages that are left then, and says whether none are.
    package static func removeCleared(at path: FilePath, _ isCleared: () -> Bool) {
        let keybag = path.removingLastComponent().removingLastComponent().removingLastComponent()
        let notes = FoundMountNote.all(ofKeybag: keybag, until: Clock.monotonic() + 1_000_000_000).notes
        guard let one = notes.first(where: { $0.path == path }) else { return }
        var open = notes.filter { $0.note.isOfSameMount(as: one.note) && $0.note.server != getpid() }
        var ended: [FoundMountNote] = []
        for _ in 0..<500 where !open.isEmpty {
            let closed = open.partition { $0.isEnded() }
            ended += open[closed...]
            open.removeSubrange(closed...)
            if !open.isEmpty { usleep(10_000) }
        }
        if isCleared() { for note in ended { note.remove() } }
    }

    private func isOfSameMount(as other: MountNote) -> Bool {
        (mount, device, namespace, boot) == (other.mount, other.device, other.namespace, other.boot)
    }
}

/// Another process's note, read.
struct FoundMountNote {
    let note: MountNote
    private let file: LowerFile

    /// All of a keybag, and whether these are all.
    ///
    /// - Parameter end: as in ``RunDirectory/forEachFile(in:until:_:)``.
    static func all(ofKeybag keybag: FilePath, until end: UInt64) -> (notes: [FoundMountNote], areAll: Bool) {
        let run = RunDirectory(of: keybag)
        var notes: [FoundMountNote] = []
        let areAll = run.forEachFile(in: run.mounts, until: end) { file throws(DataProtectionError) in
            // Of something else nothing is known, and it is left alone.
            if let note = MountNote(decoding: try file.bytes(at: 0, count: MountNote.longest)) {
                notes.append(FoundMountNote(note: note, file: file))
            }
        }
        return (notes, areAll)
    }

    /// Whether the server lives. It may be stopped.
    var isServed: Bool { (try? file.isLockedElsewhere(0)) == true }

    var path: FilePath { file.path }

    /// Whether the server has ended, with all of its threads. Nobody else can serve under this note then.
    func isEnded() -> Bool { (try? file.tryByteLock(0, .exclusive)) == true }

    /// Nothing of its mount is left.
    func remove() { if isEnded() { try? AtomicReplace.remove(file.path) } }
}
