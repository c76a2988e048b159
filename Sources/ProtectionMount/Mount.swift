import DataProtection
import DurableFiles
import FuseSession
import Keybags
import SystemPackage

/// A directory of protected files, mounted read-only so that programs which know nothing of protectfs read the plaintext.
///
/// The mount stays while locked: files that are locked refuse to open and to be read (ENOKEY), and everything else goes on.
package final class Mount {
    private let session: FuseSession

    /// Mounts `source` at `point`. The kernel waits until ``serve()`` answers it.
    package init(_ source: FilePath, at point: MountPoint, keybag: Keybag) throws(MountError) {
        let tree: LowerTree
        do throws(DataProtectionError) { tree = try LowerTree(try LowerDirectory(source)) } catch {
            throw .unusable(source, error.errno)
        }
        let files = MountedTree(tree, keybag: keybag)
        do throws(Errno) { session = try FuseSession(files, at: point.path) } catch { throw .refused(point.path) }
        point.close()
        files.pages.guardPages(of: session) { [weak opened = files.files] in opened?.readable($0) ?? [:] }
    }

    /// Answers programs until it is unmounted.
    package func serve() throws(MountError) {
        do throws(Errno) { try session.run(threads: 4) } catch { throw .unusable("/", error) }
    }
}
