import DataProtection
import Glibc

/// Where the kernel moves memory to when there is not enough: proc_swaps(5), and sysfs for what is below a device.
struct Swap: Equatable {
    let name: String
    /// Compressed memory, or a disk that dm-crypt encrypts.
    let isSafe: Bool

    /// All that is turned on now.
    static func read() -> Reading<[Swap]> {
        guard NamedItem.exists("/proc/swaps") else { return .known([]) }  // a kernel without swap
        return KernelFile.text(of: "/proc/swaps").map { text in
            text.split(separator: "\n").dropFirst().compactMap { line in
                line.split(whereSeparator: { $0 == " " || $0 == "\t" }).first.map { field in
                    let name = MountTable.unescaped(field)
                    return Swap(name: name, isSafe: isSafe(name))
                }
            }
        }
    }

    private static func isSafe(_ name: String) -> Bool {
        let path = FilePath(name)
        if let device = path.lastComponent?.string, device.hasPrefix("zram") {
            let backing = KernelFile.text(of: FilePath("/sys/block/\(device)/backing_dev"))
            guard case .known(let backing) = backing else { return true }  // a kernel without write-back
            return backing == "none"
        }
        var status = stat()
        guard stat(name, &status) == 0 else { return false }
        let isDevice = status.st_mode & S_IFMT == S_IFBLK
        return isEncrypted(isDevice ? status.st_rdev : status.st_dev)
    }

    private static func isEncrypted(_ device: dev_t) -> Bool {
        let major = (device >> 8) & 0xFFF | (device >> 32) & ~0xFFF
        let minor = device & 0xFF | (device >> 12) & ~0xFF
        if major == 0 { return mounted(minor).map { isEncrypted($0) } ?? false }
        return isEncrypted(sysfs: FilePath("/sys/dev/block/\(major):\(minor)"))
    }

    /// A device mapping of type CRYPT, or one that lies on such mappings only.
    private static func isEncrypted(sysfs: FilePath) -> Bool {
        if case .known(let uuid) = KernelFile.text(of: sysfs.appending("dm").appending("uuid")),
            uuid.hasPrefix("CRYPT-")
        {
            return true
        }
        let below = (try? TreeWalk.contents(of: sysfs.appending("slaves"))) ?? []
        return !below.isEmpty && below.allSatisfy { isEncrypted(sysfs: $0) }
    }

    /// Btrfs gives its files a device number that no block device has: the block device that is mounted there.
    private static func mounted(_ minor: dev_t) -> dev_t? {
        guard case .known(let table) = MountTable.reading(),
            let mount = table.mounts.first(where: { $0.device == "0:\(minor)" })
        else { return nil }
        var status = stat()
        guard stat(mount.source, &status) == 0, status.st_mode & S_IFMT == S_IFBLK else { return nil }
        return status.st_rdev
    }
}
