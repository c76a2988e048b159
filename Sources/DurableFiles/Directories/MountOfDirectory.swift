import CDirectoryEntries
import Glibc
import SystemPackage

/// The mount that a directory is in, to look at other paths in it and at nothing else: another file system may hang, for example a network
/// file system whose server is gone, and would hold up whoever only asks.
package struct MountOfDirectory {
    /// An open directory, O_PATH.
    private final class Place {
        let descriptor: Int32
        init?(_ descriptor: Int32) {
            guard descriptor >= 0 else { return nil }
            self.descriptor = descriptor
        }
        deinit { close(descriptor) }

        /// The directory to which `path` leads from here without leaving the mount.
        func directory(_ path: FilePath) -> Place? {
            path.withPlatformString { Place(protectfs_open_within_mount(descriptor, $0)) }
        }

        func isSame(as other: Place) -> Bool {
            var (own, its) = (stat(), stat())
            guard fstat(descriptor, &own) == 0, fstat(other.descriptor, &its) == 0 else { return false }
            return own.st_dev == its.st_dev && own.st_ino == its.st_ino
        }
    }
    private let directory: Place
    private let root: Place
    /// Where the mount is. proc_pid_mountinfo(5).
    private let point: FilePath

    /// - Returns: nil if the directory is not there, or `/proc` or the kernel (before Linux 5.6) does not say where it is mounted.
    package init?(_ path: FilePath) {
        guard let opened = try? LowerDirectory(path),
            let directory = Place(protectfs_open_within_mount(opened.descriptor, ".")),
            let point = Self.mountPoint(of: opened.descriptor)
        else { return nil }
        var root = directory
        while let above = root.directory(".."), !above.isSame(as: root) { root = above }
        (self.directory, self.root, self.point) = (directory, root, point)
    }

    /// Whether an absolute path leads to the directory, within the mount.
    package func leads(_ path: FilePath) -> Bool {
        var rest = path
        guard rest.removePrefix(point) else { return false }
        return root.directory(rest.isEmpty ? "." : rest)?.isSame(as: directory) == true
    }

    private static func mountPoint(of descriptor: Int32) -> FilePath? {
        guard let about = try? LowerFile(FilePath("/proc/self/fdinfo/\(descriptor)"), flags: O_RDONLY).text(),
            let number = about.split(separator: "\n").first(where: { $0.hasPrefix("mnt_id:") })?.dropFirst(7)
                .split(separator: "\t").last,
            let mounts = try? LowerFile("/proc/self/mountinfo", flags: O_RDONLY).text()
        else { return nil }
        for line in mounts.split(separator: "\n") {
            // number parent device root place options …
            let fields = line.split(separator: " ")
            if fields.count > 4, fields[0] == number { return FilePath(bytes: unescaped(fields[4])) }
        }
        return nil
    }

    /// Space, tab, line feed and backslash are `\` and three octal digits there.
    private static func unescaped(_ text: Substring) -> [UInt8] {
        var (bytes, rest) = ([UInt8](), Array(text.utf8)[...])
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\\"), rest.count >= 3,
                let code = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8)
            {
                bytes.append(code)
                rest.removeFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }
}
