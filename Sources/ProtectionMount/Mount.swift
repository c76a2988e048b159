import DataProtection
import DurableFiles
import FuseSession
import Glibc
import Keybags
import POSIXThreads
import SystemPackage

/// A directory of protected files, mounted so that programs which know nothing of protectfs read the plaintext, and write it if they may.
///
/// The mount stays while locked: files that are locked refuse to open, to be read and to be written to (ENOKEY), and everything else goes on.
package final class Mount {
    private let session: FuseSession
    private let note: HeldMountNote?
    private let files: MountedTree
    private let below: DirectoryBelowListener
    /// What is left of the server whose place this one has taken.
    private let taken: MountRemains?

    /// Mounts `source` at `point`. The kernel waits until ``serve()`` answers it.
    package init(
        _ source: FilePath, at point: MountPoint, keybag: Keybag, isReadOnly: Bool = true
    ) throws(MountError) {
        taken = nil
        let directory: LowerDirectory
        do throws(DataProtectionError) {
            // By its descriptor: a mount over the directory hides it from everybody who goes by its name.
            directory = try LowerDirectory(source).namedByDescriptor()
        } catch {
            point.restore()
            throw .unusable(source, error.errno)
        }
        // Before anything is mounted: a lock must not depend on a thread that the system may not make then.
        let files: MountedTree
        do throws(Errno) {
            files = try Self.files(directory, keybag: keybag, try? ConnectionRecord())
            below = try DirectoryBelowListener()
        } catch {
            point.restore()
            throw .noThread(error)
        }
        self.files = files
        // The kernel reuses the numbers of mounts. Without this, the note of an earlier mount would count for this one.
        MountNote.removeEnded(ofKeybag: keybag.directory)
        do throws(Errno) {
            session = try FuseSession(
                files, at: point.path, source: below.name, isReadOnly: isReadOnly, record: files.pages.record)
        } catch {
            point.restore()
            throw .refused(point.path)
        }
        point.makeUnwritable()
        // Before anything is read: if this process is killed, a lock must know of what the kernel has cached.
        do throws(DataProtectionError) {
            note = try HeldMountNote.hold(try MountNote(at: point.path), inKeybag: keybag.directory)
        } catch { throw .unusable(keybag.directory, error.errno) }
        begin(isInPlace: point.isInPlace)
    }

    /// Goes on with the mount of a server that was killed: programs keep what they have open.
    ///
    /// - Throws: why that is impossible. Nothing has changed then, but for requests that were refused.
    package init(after remains: MountRemains, isInPlace: Bool, keybag: Keybag) throws(MountError) {
        do throws(Errno) {
            // The originals stay as they are: if this fails, the caller has to clear them.
            let record = try ConnectionRecord(descriptor: try Self.copy(remains.record))
            let directory = try Self.copy(remains.directory)
            files = try Self.files(
                LowerDirectory(FilePath("/proc/self/fd/\(directory)"), descriptor: directory), keybag: keybag, record)
            below = try DirectoryBelowListener(socket: try Self.copy(remains.socket))
            let note = remains.note
            self.note = try refusing { () throws(DataProtectionError) in
                try HeldMountNote.hold(after: note, inKeybag: keybag.directory)
            }
            session = try FuseSession(files, descriptor: try Self.copy(remains.connection), record: record)
        } catch { throw .failed(error) }
        taken = remains
        begin(isInPlace: isInPlace)
    }

    private static func copy(_ descriptor: Int32) throws(Errno) -> Int32 {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw Errno(rawValue: errno) }
        return copy
    }

    private static func files(
        _ directory: LowerDirectory, keybag: Keybag, _ record: ConnectionRecord?
    ) throws(Errno) -> MountedTree {
        try MountedTree(try LowerTree(directory, record), keybag: keybag, record)
    }

    private func begin(isInPlace: Bool) {
        below.begin(files.tree.root, isOver: isInPlace)
        let opened = files.files
        files.pages.guardPages(of: session) { [weak opened] nodes in
            opened?.readable(nodes) ?? [:]
        } isOver: { [weak opened] in
            opened?.writers.forgetKeysOfPages()
        } change: { [weak files, note] in
            note?.makeAgain()
            files?.files.writers.mergePages()
            files?.commitLeft()
        }
    }

    /// What is left of it if this process is killed; nil where nobody could know.
    package var remains: MountRemains? {
        guard let record = files.pages.record else { return nil }
        return MountRemains(
            connection: session.descriptor, record: record.descriptor, directory: files.tree.root.descriptor,
            socket: below.descriptor, note: note?.path ?? "")
    }

    /// Answers programs until it is unmounted.
    package func serve() throws(MountError) {
        defer {
            // Where the connection was cut, nobody has closed what was written.
            files.files.writers.commit()
            below.end()
            note?.end()
        }
        if let taken {
            do throws(POSIXThread.Refusal) {
                try POSIXThread.detach(blocksSignals: true) { [files] in
                    taken.dropPages()
                    files.commitLeft()
                }
            } catch { throw .noThread(Errno(rawValue: error.code)) }
        }
        do throws(Errno) { try session.run(threads: 4) } catch { throw .failed(error) }
    }
}
