import CEventFiles
import Glibc
import SystemPackage

/// File systems that other machines can have too, or that may show one file as two: pages in the cache can be old there.
package enum SharedFileSystem {
    /// Of linux/magic.h: NFS, CIFS, SMB2, 9P, Ceph, AFS, Coda.
    private static let networks: Set<UInt32> = [
        0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x00C3_6400, 0x5346_414F, 0x7375_7245,
    ]
    private static let fuse: UInt32 = 0x6573_5546

    /// Whether `path` is on one. The C call is `statfs`; false if that fails.
    package static func holds(_ path: FilePath) -> Bool {
        var status = statfs()
        return path.withPlatformString { statfs($0, &status) } == 0 && isOne(status)
    }

    /// Whether an open file or directory is on one. The C call is `fstatfs`; false if that fails.
    package static func holds(_ descriptor: Int32) -> Bool {
        var status = statfs()
        return fstatfs(descriptor, &status) == 0 && isOne(status)
    }

    /// Whether flock(2) of an open file may be a lock of all its bytes. NFS and SMB do that: see flock(2), *NFS details* and *CIFS details*.
    package static func locksBytesByFlock(_ descriptor: Int32) -> Bool {
        var status = statfs()
        return fstatfs(descriptor, &status) == 0 && networks.contains(UInt32(truncatingIfNeeded: status.f_type))
    }

    private static func isOne(_ status: statfs) -> Bool {
        let type = UInt32(truncatingIfNeeded: status.f_type)
        return type == fuse || networks.contains(type)
    }
}

extension LowerFile {
    /// Lets the next read ask the file system where another machine may have written to the file: posix_fadvise(2), POSIX_FADV_DONTNEED.
    /// Elsewhere the cache is the truth, and stays.
    ///
    /// All of the file, and before its heads are read: new heads with old chunks would look damaged. Every operation on an open file does
    /// this anew. It costs a local file one fstatfs(2), the first time.
    package func forgetOldPages() {
        if isShared { _ = posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) }
    }
}
