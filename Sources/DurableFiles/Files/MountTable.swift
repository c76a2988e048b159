import CDirectoryEntries
import Glibc
import SystemPackage

/// What is mounted where: proc_pid_mountinfo(5). Reading it asks no file system, so a server that hangs holds nobody up.
package struct MountTable: Sendable {
    package struct Mount: Hashable, Sendable {
        /// The number that `mnt_id` in proc_pid_fdinfo(5) names, too.
        package let id: UInt64
        package let point: FilePath
        /// What is shown there: a directory of its file system, `/` as a rule.
        package let root: FilePath
        /// `ext4`, `fuse.sshfs` …
        package let type: String
        /// A device, or a name.
        package let source: String
        /// The device number of its files, as `major:minor` in decimal.
        package let device: String
        /// Whether the file system is read-only wherever it is mounted, not only here.
        package let isReadOnlyFileSystem: Bool
        /// Of a FUSE file system, the uid that it was mounted for.
        package let user: uid_t?
    }
    package let mounts: [Mount]

    package init(parsing text: some StringProtocol) { self.init(parsing: Array(text.utf8)) }

    /// - Parameter text: as the kernel writes it; names need not be UTF-8.
    package init(parsing text: [UInt8]) {
        mounts = text.split(separator: UInt8(ascii: "\n")).compactMap { line in
            let fields = line.split(separator: UInt8(ascii: " ")).map { Self.unescaped(Array($0)) }
            guard fields.count > 6, let dash = fields[6...].firstIndex(of: [UInt8(ascii: "-")]),
                dash + 2 < fields.count, let id = UInt64(String(decoding: fields[0], as: UTF8.self))
            else { return nil }
            let texts = fields.map { String(decoding: $0, as: UTF8.self) }
            let options = texts.dropFirst(dash + 3).first?.split(separator: ",") ?? []
            return Mount(
                id: id, point: FilePath(bytes: fields[4]), root: FilePath(bytes: fields[3]), type: texts[dash + 1],
                source: texts[dash + 2], device: texts[2], isReadOnlyFileSystem: options.first == "ro",
                user: options.first { $0.hasPrefix("user_id=") }.flatMap { uid_t($0.dropFirst("user_id=".count)) })
        }
    }

    /// As a process sees it.
    ///
    /// - Parameter process: its number, or `self`.
    /// - Throws: `system`; ENOENT if there is no such process.
    package static func seen(by process: String = "self") throws(DataProtectionError) -> MountTable {
        MountTable(parsing: try LowerFile(FilePath("/proc/\(process)/mountinfo"), flags: O_RDONLY).textBytes())
    }

    /// The mount that an open file or directory of this process is on; nil if /proc does not say. proc_pid_fdinfo(5).
    package static func mount(ofDescriptor descriptor: Int32) -> Mount? {
        guard let about = try? LowerFile(FilePath("/proc/self/fdinfo/\(descriptor)"), flags: O_RDONLY).text(),
            let number = number(in: about)
        else { return nil }
        return try? seen().mounts.first { $0.id == number }
    }

    /// ``Mount/id`` of the mount that an open file is on, from what proc_pid_fdinfo(5) says of it.
    package static func number(in about: String) -> UInt64? {
        about.split(separator: "\n").first { $0.hasPrefix("mnt_id:") }?.split(separator: "\t").last
            .flatMap { UInt64($0) }
    }

    /// The same of what a path leads to, a link too. No server of a file system is asked: statx(2) with AT_STATX_DONT_SYNC. Nil before Linux 5.8.
    package static func number(ofMountAt path: FilePath) -> UInt64? {
        let number = path.withPlatformString { protectfs_mount_of($0) }
        return number == 0 ? nil : number
    }

    /// The mount that `path`, absolute and without links, is on: of several at one place the last one hides the others.
    package func mount(of path: FilePath) -> Mount? {
        mounts.enumerated().filter { path.starts(with: $0.element.point) }
            .max { ($0.element.point.length, $0.offset) < ($1.element.point.length, $1.offset) }?.element
    }

    /// `st_dev` of stat(2) as ``Mount/device`` has it.
    package static func device(_ number: UInt64) -> String {
        let major = number >> 8 & 0xFFF | number >> 32 & ~0xFFF
        let minor = number & 0xFF | number >> 12 & 0xFFFF_FF00
        return "\(major):\(minor)"
    }

    /// Spaces and the like stand there, and in /proc/swaps, as `\040`.
    package static func unescaped(_ field: some StringProtocol) -> String {
        String(decoding: unescaped(Array(field.utf8)), as: UTF8.self)
    }

    private static func unescaped(_ field: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = field[...]
        while let byte = rest.popFirst() {
            let digits = String(decoding: rest.prefix(3), as: UTF8.self)
            if byte == UInt8(ascii: "\\"), digits.utf8.count == 3, let code = UInt8(digits, radix: 8) {
                bytes.append(code)
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }
}
