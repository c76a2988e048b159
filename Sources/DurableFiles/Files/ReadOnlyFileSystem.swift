import Glibc
import SystemPackage

extension LowerFile {
    /// Whether nobody on this machine can write to the file, because its whole file system is read-only.
    ///
    /// A file system that is read-only only where this process sees it (a bind mount, as containers and systemd units have it) does not count,
    /// nor one that can be mounted a second time from a server. False also without /proc. proc_pid_fdinfo(5), proc_pid_mountinfo(5).
    package var isOnReadOnlyFileSystem: Bool {
        guard !SharedFileSystem.holds(descriptor),
            let about = try? LowerFile(FilePath("/proc/self/fdinfo/\(descriptor)"), flags: O_RDONLY).text(),
            let mounts = try? LowerFile("/proc/self/mountinfo", flags: O_RDONLY).text(),
            let mount = about.split(separator: "\n").first(where: { $0.hasPrefix("mnt_id:") })?.dropFirst(7)
                .split(separator: "\t").last
        else { return false }
        return Self.isReadOnly(mount: mount, in: mounts)
    }

    /// - Parameters:
    ///   - mount: its number.
    ///   - mounts: the text of /proc/self/mountinfo.
    package static func isReadOnly(mount: some StringProtocol, in mounts: String) -> Bool {
        for line in mounts.split(separator: "\n") {
            let fields = line.split(separator: " ")
            // number parent device root place options … - type source options of the file system
            guard fields.first.map({ $0 == mount }) == true, let dash = fields.lastIndex(of: "-"),
                fields.count > dash + 3
            else { continue }
            return fields[dash + 3].split(separator: ",").first == "ro"
        }
        return false
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
