import DataProtection
import DurableFiles
import FuseSession
import Keybags
import SystemPackage

/// A directory of protected files, mounted so that programs which know nothing of protectfs read the plaintext, and write it if they may.
///
/// The mount stays while locked: files that are locked refuse to open, to be read and to be written to (ENOKEY), and everything else goes on.
package final class Mount {
    private let session: FuseSession
    private let note: HeldMountNote?
    private let files: MountedTree
    private let below: DirectoryBelowListener

    /// Mounts `source` at `point`. The kernel waits until ``serve()`` answers it.
    package init(
        _ source: FilePath, at point: MountPoint, keybag: Keybag, isReadOnly: Bool = true
    ) throws(MountError) {
        let tree: LowerTree
        do throws(DataProtectionError) {
            // By its descriptor: a mount over the directory hides it from everybody who goes by its name.
            tree = try LowerTree(try LowerDirectory(source).namedByDescriptor())
        } catch {
            point.restore()
            throw .unusable(source, error.errno)
        }
        // Before anything is mounted: a lock must not depend on a thread that the system may not make then.
        let files: MountedTree
        do throws(Errno) {
            files = try MountedTree(tree, keybag: keybag)
            below = try DirectoryBelowListener()
        } catch {
            point.restore()
            throw .noThread(error)
        }
        self.files = files
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
        below.begin(tree.root, isOver: point.isInPlace)
        let opened = files.files
        files.pages.guardPages(of: session) { [weak opened] nodes in
            opened?.readable(nodes) ?? [:]
        } isOver: { [weak opened] in
            opened?.writers.forgetKeysOfPages()
        } change: { [weak opened] in
            opened?.writers.mergePages()
        }
    }

    /// What is left of it if this process is killed; nil where nobody could know.
    package var remains: MountRemains? {
        guard let record = files.pages.record else { return nil }
        return MountRemains(connection: session.descriptor, record: record.descriptor, note: note?.path ?? "")
    }

    /// Answers programs until it is unmounted.
    package func serve() throws(MountError) {
        defer {
            // Where the connection was cut, nobody has closed what was written.
            files.files.writers.commit()
            below.end()
            note?.end()
        }
        do throws(Errno) { try session.run(threads: 4) } catch { throw .failed(error) }
    }
}
