import DurableFiles
import Glibc
import SystemPackage

/// What is known of the last recovery export: `exported` in the keybag's directory. A hint, FORMAT.md §2.
package struct ExportRecord: Equatable {
    package static let name = "exported"

    /// The sequence of the copy that was exported.
    package var sequence: UInt64
    /// Seconds since 1970.
    package var time: UInt64

    /// Reads it; nil where nobody has exported, or what is there is no such record.
    package init?(in directory: FilePath) {
        guard
            let file = try? LowerFile(regular: directory.appending(Self.name), flags: O_RDONLY | O_NOFOLLOW),
            let bytes = try? file.bytes(at: 0, count: 64), bytes.last == UInt8(ascii: "\n")
        else { return nil }
        let fields = String(decoding: bytes.dropLast(), as: UTF8.self).split(
            separator: " ", omittingEmptySubsequences: false)
        guard fields.count == 2, let sequence = UInt64(fields[0]), let time = UInt64(fields[1]) else { return nil }
        self.init(sequence: sequence, time: time)
    }

    package init(sequence: UInt64, time: UInt64 = Clock.now()) {
        self.sequence = sequence
        self.time = time
    }

    /// Writes the record. A failure is ignored: it costs at most a premature warning later, not the export.
    package func store(in directory: FilePath) {
        try? AtomicReplace.write(
            Array("\(sequence) \(time)\n".utf8), to: Self.name, in: directory, through: "\(Self.name).new")
    }
}
