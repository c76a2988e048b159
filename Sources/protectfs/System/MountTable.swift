import DataProtection
import Glibc

/// What is mounted where: proc_pid_mountinfo(5).
struct MountTable {
    struct Mount: Equatable {
        let point: String
        /// `ext4`, `fuse.sshfs` …
        let type: String
        /// A device, or a name.
        let source: String
        /// The device number of its files, as `major:minor`.
        let device: String
    }
    let mounts: [Mount]

    init(parsing text: String) {
        mounts = text.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ").map { Self.unescaped($0) }
            guard fields.count > 6, let dash = fields[6...].firstIndex(of: "-"), dash + 2 < fields.count else {
                return nil
            }
            return Mount(
                point: fields[4], type: fields[dash + 1], source: fields[dash + 2], device: fields[2])
        }
    }

    static func now() -> Reading<MountTable> {
        KernelFile.text(of: "/proc/self/mountinfo", count: 1 << 20).map { MountTable(parsing: $0) }
    }

    /// The mount that `path`, absolute and without links, is on: of several at one place the last one hides the others.
    func mount(of path: FilePath) -> Mount? {
        mounts.enumerated().filter { path.starts(with: FilePath($0.element.point)) }
            .max { ($0.element.point.utf8.count, $0.offset) < ($1.element.point.utf8.count, $1.offset) }?.element
    }

    /// Spaces and the like stand there, and in /proc/swaps, as `\040`.
    static func unescaped(_ field: some StringProtocol) -> String {
        var bytes: [UInt8] = []
        var rest = Array(field.utf8)[...]
        while let byte = rest.popFirst() {
            let digits = String(decoding: rest.prefix(3), as: UTF8.self)
            if byte == UInt8(ascii: "\\"), digits.utf8.count == 3, let code = UInt8(digits, radix: 8) {
                bytes.append(code)
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
