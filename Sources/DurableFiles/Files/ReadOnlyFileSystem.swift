import Glibc
import SystemPackage

extension LowerFile {
    /// Whether nobody on this machine can write to the file, because its whole file system is read-only.
    ///
    /// A file system that is read-only only where this process sees it (a bind mount, as containers and systemd units have it) does not count,
    /// nor one that can be mounted a second time from a server. False also without /proc.
    package var isOnReadOnlyFileSystem: Bool {
        !SharedFileSystem.holds(descriptor)
            && MountTable.mount(ofDescriptor: descriptor)?.isReadOnlyFileSystem == true
    }

    /// All of the text, for files of /proc: their length is not known before.
    package func text() throws(DataProtectionError) -> String {
        String(decoding: try textBytes(), as: UTF8.self)
    }

    /// The same where it has names of files, which need not be UTF-8.
    package func textBytes() throws(DataProtectionError) -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            let piece = try self.bytes(at: UInt64(bytes.count), count: 16_384)
            bytes += piece
            if piece.count < 16_384 { return bytes }
        }
    }
}
