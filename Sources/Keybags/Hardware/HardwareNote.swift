import DurableFiles
import Glibc
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// `hardware-pending`: secrets in hardware that a change is about to make or to destroy. FORMAT.md §2.21.
///
/// The note is on the disk before the hardware changes. If the change is killed, the next unlock destroys the secrets that the keybag does not name.
/// A process that works with the note holds its flock, so that no other process takes a running change for a dead one.
package struct HardwareNote: ~Copyable {
    package static let name = "hardware-pending"

    /// A secret: where it is, and the label without which nothing there is touched.
    package struct Line: Hashable, Sendable {
        package let handle: UInt32
        /// 32 bytes.
        package let label: [UInt8]

        package init(handle: UInt32, label: [UInt8]) {
            self.handle = handle
            self.label = label
        }

        /// Eight hexadecimal digits, a space, 64 hexadecimal digits.
        fileprivate init?(_ text: Substring) {
            let fields = text.split(separator: " ", omittingEmptySubsequences: false)
            guard fields.count == 2, fields[0].utf8.count == 8, fields[1].utf8.count == 64,
                let handle = UInt32(fields[0], radix: 16), let label = Hexadecimal.bytes(String(fields[1])),
                label.count == 32
            else { return nil }
            self.init(handle: handle, label: label)
        }

        fileprivate var text: String {
            let digits = String(handle, radix: 16)
            return String(repeating: "0", count: 8 - digits.count) + digits + " " + Hexadecimal.text(label) + "\n"
        }

        fileprivate static let length = 8 + 1 + 64 + 1
    }

    private let file: LowerFile
    /// Without those that a killed writer did not finish: their secrets were not made.
    package private(set) var lines: [Line]

    /// Nothing longer was written by us.
    private static let maximumLength = 64 * Line.length

    /// Opens the note, and makes it if it is not there.
    ///
    /// - Throws: `busy` if a change is under way; `system`.
    package init(in directory: FilePath) throws(DataProtectionError) {
        guard let note = try Self(in: directory, flags: O_CREAT) else { throw .busy(directory) }
        self = note
    }

    /// Opens the note that a change has left which was killed; nil if there is none, or the change is under way.
    package init?(leftIn directory: FilePath) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            guard let note = try Self(in: directory, flags: 0) else { return nil }
            self = note
        } catch .system(_, _, .noSuchFileOrDirectory) { return nil }
    }

    private init?(in directory: FilePath, flags: Int32) throws(DataProtectionError) {
        let path = directory.appending(Self.name)
        for _ in 0..<8 {
            let file = try LowerFile(path, flags: O_RDWR | O_NOFOLLOW | O_NONBLOCK | flags)
            try file.requireRegular()
            guard flock(file.descriptor, LOCK_EX | LOCK_NB) == 0 else { return nil }
            // Removed since it was opened: its change has ended.
            guard try file.isNamed(path) else { continue }
            let text = String(decoding: try file.bytes(at: 0, count: Self.maximumLength), as: UTF8.self)
            lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().compactMap(Line.init)
            self.file = file
            return
        }
        return nil
    }

    deinit { file.giveBackFlock() }

    /// Adds what is about to be made or destroyed. It is on the disk when this returns.
    package mutating func add(_ new: [Line]) throws(DataProtectionError) {
        for line in new where !lines.contains(line) { lines.append(line) }
        try file.write(Array(lines.map(\.text).joined().utf8), at: 0)
        try file.truncate(to: UInt64(lines.count * Line.length))
        try file.flushAll()
        try AtomicReplace.flushDirectory(file.path.directory)
    }

    /// Removes it: nothing is pending any more.
    package consuming func remove() throws(DataProtectionError) {
        try AtomicReplace.remove(file.path)
        try AtomicReplace.flushDirectory(file.path.directory)
    }
}

extension KeybagCopy {
    /// The secrets that it names, those that take part in nothing included.
    package func hardwareLines() throws(DataProtectionError) -> [HardwareNote.Line] {
        try withKeys { () throws(KeyError) in
            try hardwareShares.map { share throws(KeyError) in
                HardwareNote.Line(handle: share.index, label: try HardwareShare.label(of: share.id, in: uuid))
            }
        }
    }
}
