import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// What a note of the queue says: its first record is the work, later ones are what came of it. FORMAT.md §2.8.
///
///     field ‖ 00 ‖ field ‖ 00 ‖ … ‖ 0A        numbers in decimal, ids in hexadecimal, paths byte for byte
package enum QueueRecord: Hashable {
    /// Give a file that was created with class `from` the class `to`.
    case raise(FileReference, from: ProtectionClass, to: ProtectionClass)
    /// Append a segment to its log. The seal (``JoinSeal``) is empty in notes of earlier versions, which had none.
    case join(FileReference, log: FilePath, seal: [UInt8])
    /// Write pages of a mapping into the file that were kept while it was locked. The salt, 16 bytes, names the file that has them:
    /// ``LatePagesFile``.
    case late(FileReference, salt: [UInt8])
    /// Bring what is in a directory to its class.
    case upgrade(QueuedUpgrade)
    /// The join has begun to write `count` bytes of the segment, from `from` on, at `offset` of the log. The seal (``FileClaim``) is empty in
    /// notes of earlier versions, which had none.
    case begun(FileReference, offset: UInt64, from: UInt64, count: UInt64, seal: [UInt8])
    /// The last try failed, at that second since 1970.
    case failed(Errno, at: UInt64)

    package var encoded: [UInt8] {
        let fields: [[UInt8]] =
            switch self {
            case .raise(let file, let from, let to):
                [Array("raise".utf8)] + file.fields + [Self.text(from.rawValue), Self.text(to.rawValue)]
            case .join(let segment, let log, let seal):
                [Array("join".utf8)] + segment.fields + [log.bytes]
                    + (seal.isEmpty ? [] : [Array(Hexadecimal.text(seal).utf8)])
            case .late(let file, let salt): [Array("late".utf8)] + file.fields + [Array(Hexadecimal.text(salt).utf8)]
            case .upgrade(let upgrade): [Array("upgrade".utf8)] + upgrade.fields
            case .begun(let log, let offset, let from, let count, let seal):
                [Array("begun".utf8)] + log.fields + [Self.text(offset), Self.text(from), Self.text(count)]
                    + (seal.isEmpty ? [] : [Array(Hexadecimal.text(seal).utf8)])
            case .failed(let errno, let time): [Array("failed".utf8), Self.text(errno.rawValue), Self.text(time)]
            }
        return fields.flatMap { $0 + [0] } + [0x0A]
    }

    /// The fields of a `begun`, which has most: a note of zeros must not cost many times its length in memory.
    private static let mostFields = 9

    /// All whole records; what follows the last one is torn and was never acknowledged.
    package static func decode(_ bytes: [UInt8]) -> [QueueRecord] {
        var records: [QueueRecord] = []
        var fields: [ArraySlice<UInt8>] = []
        var start = 0
        while let end = bytes[start...].firstIndex(of: 0) {
            guard fields.count < mostFields else { return records }
            fields.append(bytes[start..<end])
            start = end + 1
            // A field never begins with a newline: words, numbers, absolute paths, and rules.
            guard start < bytes.count, bytes[start] == 0x0A else { continue }
            guard let record = QueueRecord(fields) else { return records }
            records.append(record)
            fields = []
            start += 1
        }
        return records
    }

    private init?(_ fields: [ArraySlice<UInt8>]) {
        guard let word = fields.first.map({ String(decoding: $0, as: UTF8.self) }) else { return nil }
        let file = fields.count > 4 ? FileReference(fields: fields[1...4]) : nil
        let numbers = fields.dropFirst(5).map { UInt64(String(decoding: $0, as: UTF8.self)) }
        switch (word, fields.count, file) {
        case ("raise", 7, let file?):
            let classes = numbers.compactMap { $0.flatMap { ProtectionClass(rawValue: UInt8(clamping: $0)) } }
            guard classes.count == 2 else { return nil }
            self = .raise(file, from: classes[0], to: classes[1])
        case ("join", 6...7, let file?) where fields[5].first == UInt8(ascii: "/"):
            guard let seal = fields.count == 6 ? [] : Self.bytes(fields[6], count: JoinSeal.length) else { return nil }
            self = .join(file, log: FilePath(bytes: Array(fields[5])), seal: seal)
        case ("late", 6, let file?):
            guard let salt = Self.bytes(fields[5], count: LatePages.saltLength) else { return nil }
            self = .late(file, salt: salt)
        case ("upgrade", _, _):
            guard let upgrade = QueuedUpgrade(fields: fields.dropFirst()) else { return nil }
            self = .upgrade(upgrade)
        case ("begun", 8...9, let file?):
            guard let offset = numbers[0], let from = numbers[1], let count = numbers[2],
                let seal = fields.count == 8 ? [] : Self.bytes(fields[8], count: JoinSeal.length)
            else { return nil }
            self = .begun(file, offset: offset, from: from, count: count, seal: seal)
        case ("failed", 3, _):
            let numbers = fields.dropFirst().compactMap { UInt64(String(decoding: $0, as: UTF8.self)) }
            guard numbers.count == 2 else { return nil }
            self = .failed(Errno(rawValue: CInt(clamping: numbers[0])), at: numbers[1])
        default: return nil
        }
    }

    private static func text(_ number: some BinaryInteger) -> [UInt8] { Array("\(number)".utf8) }

    /// So many bytes in lower-case hexadecimal.
    private static func bytes(_ field: ArraySlice<UInt8>, count: Int) -> [UInt8]? {
        guard field.count == 2 * count, let bytes = Hexadecimal.bytes(String(decoding: field, as: UTF8.self)),
            Hexadecimal.text(bytes).utf8.elementsEqual(field)
        else { return nil }
        return bytes
    }
}

extension FileReference {
    /// Device, inode number, file id, path.
    fileprivate var fields: [[UInt8]] {
        let id = Hexadecimal.text(fileID?.bytes ?? [])
        return [Array("\(device)".utf8), Array("\(inode)".utf8), Array(id.utf8), path.bytes]
    }

    fileprivate init?(fields: ArraySlice<ArraySlice<UInt8>>) {
        let fields = Array(fields)
        let digits = fields[2].compactMap { Character(UnicodeScalar($0)).hexDigitValue }
        guard let device = UInt64(String(decoding: fields[0], as: UTF8.self)),
            let inode = UInt64(String(decoding: fields[1], as: UTF8.self)), digits.count == 32, fields[2].count == 32,
            let id = try? FileID(bytes: (0..<16).map { UInt8(digits[2 * $0] << 4 | digits[2 * $0 + 1]) }),
            fields[3].first == UInt8(ascii: "/")
        else { return nil }
        self.init(device: device, inode: inode, path: FilePath(bytes: Array(fields[3])), fileID: id)
    }
}
