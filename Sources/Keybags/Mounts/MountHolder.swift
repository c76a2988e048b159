import DurableFiles
import Glibc
import SystemPackage

/// A process that has files of a mount open, mapped, or works in a directory of it, as /proc says. Neither the mount nor its server is asked.
package struct MountHolder: Hashable, Sendable {
    package let pid: Int32
    /// The first 15 bytes of the program's name, as proc_pid_comm(5) has them.
    package let program: String
    /// The files that it has open or mapped, each once, in order.
    package let files: [FilePath]

    /// The processes that this user may look into.
    ///
    /// - Parameters:
    ///   - mount: `mnt_id` of proc_pid_fdinfo(5).
    ///   - device: as `major:minor` in decimal.
    ///   - point: where it is, or was.
    package static func all(of mount: UInt64, device: String, at point: FilePath) -> [MountHolder] {
        let pids = ((try? DirectoryListing.components(of: "/proc")) ?? []).compactMap { Int32($0.string) }
        return pids.sorted().compactMap { pid in
            let process = RunningProcess(pid: pid)
            let numbers = process.numbers(of: mount, device: device)
            let open = process.openFiles(of: numbers)
            let mapped = process.mappedFiles(of: device)
            let works = process.isInDirectory(of: numbers, at: point)
            guard works || !open.isEmpty || !mapped.isEmpty else { return nil }
            let files = Set(open).union(mapped).map { ($0.bytes, $0) }
            return MountHolder(
                pid: pid, program: process.name,
                files: files.sorted { $0.0.lexicographicallyPrecedes($1.0) }.map(\.1))
        }
    }

    /// Whether the mount of a server that is dead is still there, or somebody has files of it open.
    ///
    /// Processes that this user may not look into are not seen. They matter only after a lazy unmount.
    static func mayRemain(of note: MountNote) -> Bool {
        if !Clock.mayBeThisBoot(note.boot) { return false }
        return isMounted(note) || !all(of: note.mount, device: note.device, at: note.point).isEmpty
    }

    private static func isMounted(_ note: MountNote) -> Bool {
        if MountNote.namespace(of: "self") == note.namespace { return isMounted(note, seenBy: "self") ?? true }
        let processes = ((try? DirectoryListing.components(of: "/proc")) ?? []).map(\.string)
        for process in processes where Int32(process) != nil && MountNote.namespace(of: process) == note.namespace {
            if let known = isMounted(note, seenBy: process) { return known }
        }
        // No process that this user can see runs in that namespace: its mounts have gone with it.
        return false
    }

    /// Nil if that cannot be known.
    private static func isMounted(_ note: MountNote, seenBy process: String) -> Bool? {
        guard let table = try? MountTable.seen(by: process) else { return nil }
        return table.mounts.contains {
            $0.id == note.mount && $0.device == note.device && $0.type == MountNote.type
        }
    }
}

/// What /proc says of a process: proc(5).
private struct RunningProcess {
    let pid: Int32

    private func text(_ name: String) -> [UInt8] {
        (try? LowerFile(FilePath("/proc/\(pid)/\(name)"), flags: O_RDONLY).textBytes()) ?? []
    }

    /// What a link leads to. stat(2) would ask the file system, which may never answer.
    private func target(_ name: String) -> FilePath? {
        var buffer = [CChar](repeating: 0, count: 2 * Int(PATH_MAX))
        let count = readlink("/proc/\(pid)/\(name)", &buffer, buffer.count - 1)
        return count > 0 ? FilePath(bytes: buffer[..<count].map { UInt8(bitPattern: $0) }) : nil
    }

    var name: String {
        String(decoding: text("comm").prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }

    /// The numbers of a mount: in another mount namespace it has another one. Paths tell nothing: a file below a mount over its own directory
    /// has the same as the one that the mount shows.
    func numbers(of mount: UInt64, device: String) -> Set<UInt64> {
        let process = "\(pid)"
        guard MountNote.namespace(of: process) != MountNote.namespace(of: "self"),
            let table = try? MountTable.seen(by: process)
        else { return [mount] }
        return Set(table.mounts.filter { $0.device == device && $0.type == MountNote.type }.map(\.id) + [mount])
    }

    /// Whether it works in a directory of the mount.
    func isInDirectory(of mounts: Set<UInt64>, at point: FilePath) -> Bool {
        ["cwd", "root"].contains { name in
            if let number = MountTable.number(ofMountAt: FilePath("/proc/\(pid)/\(name)")) {
                return mounts.contains(number)
            }
            return target(name)?.starts(with: point) == true
        }
    }

    func openFiles(of mounts: Set<UInt64>) -> [FilePath] {
        let numbers = ((try? DirectoryListing.components(of: FilePath("/proc/\(pid)/fd"))) ?? []).map(\.string)
        return numbers.compactMap { number in
            guard let path = target("fd/\(number)"), path.isAbsolute else { return nil }
            let about = String(decoding: text("fdinfo/\(number)"), as: UTF8.self)
            return MountTable.number(in: about).map(mounts.contains) == true ? path : nil
        }
    }

    func mappedFiles(of device: String) -> [FilePath] {
        let numbers = device.split(separator: ":").compactMap { UInt32($0) }
        guard numbers.count == 2 else { return [] }
        // address permissions offset device inode path
        let wanted = numbers.map { number in
            let digits = String(number, radix: 16)
            return digits.count < 2 ? "0" + digits : digits
        }.joined(separator: ":")
        return text("maps").split(separator: UInt8(ascii: "\n")).compactMap { line in
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 5)
            guard fields.count == 6, fields[3].elementsEqual(wanted.utf8) else { return nil }
            return FilePath(bytes: Array(fields[5].drop { $0 == UInt8(ascii: " ") }))
        }
    }
}
