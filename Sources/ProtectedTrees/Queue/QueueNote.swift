import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionKeys
import SystemPackage

/// One piece of work that waits for the keys: a file in `queue` in the keybag's directory. FORMAT.md §2.8.
///
/// Its name is a number, and work is done in the order of the numbers. A process that works on the note, or has its file open, holds the note's
/// flock: a note that can be locked is free.
package struct QueueNote {
    package static let directoryName = "queue"
    /// Bytes of a note. A note of a join has one record for each 64 MiB, so this is enough for a segment of some tebibytes.
    package static let maximumLength = 16 << 20

    package let number: UInt64
    private let file: LowerFile
    /// What was noted, oldest first: the work itself, then what came of it.
    package private(set) var records: [QueueRecord]

    /// Makes a note that lasts, and is held by this process until the note is removed or this value is gone.
    ///
    /// - Throws: `system` where none can be made: what it is about must not be begun then. EFBIG: ``maximumLength``.
    package init(_ work: QueueRecord, in keybag: FilePath) throws(DataProtectionError) {
        let directory = keybag.appending(Self.directoryName)
        try OwnDirectory.makeLast(directory)
        let place = try LowerDirectory(directory)
        let unnamed = try UnnamedFile(DirectoryEntry("note", in: place))
        _ = try retrying(directory, "fchmod") { fchmod(unnamed.file.descriptor, 0o600) }
        try Self.requireRoom(for: work.encoded.count, in: directory)
        try unnamed.file.write(work.encoded, at: 0)
        try unnamed.file.flushAll()
        var number = FreeNumber.after(try Self.numbers(in: keybag))
        while true {
            do throws(DataProtectionError) {
                try unnamed.takeName(DirectoryEntry(FilePath.Component("\(number)")!, in: place))
                break
            } catch .exists {
                number = FreeNumber.after(try Self.numbers(in: keybag))
            }
        }
        try place.flush()
        // Of an earlier note of that number, whose worker was killed after it had removed the note.
        QueueTries(number, in: keybag).end()
        self.number = number
        file = LowerFile(path: directory.appending("\(number)"), descriptor: try unnamed.file.duplicate())
        records = [work]
    }

    /// Reads a note; nil if it has just gone.
    ///
    /// - Parameter holding: lock it; nil also if somebody else has.
    /// - Throws: `notRegularFile`; `system`, with EFBIG for a file that is longer than ``maximumLength``.
    package init?(_ number: UInt64, in keybag: FilePath, holding: Bool) throws(DataProtectionError) {
        let path = Self.path(number, in: keybag)
        do throws(DataProtectionError) {
            file = try LowerFile(regular: path, flags: (holding ? O_RDWR : O_RDONLY) | O_NOFOLLOW)
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return nil
        }
        if holding {
            do throws(DataProtectionError) {
                _ = try retrying(path, "flock") { [file] in flock(file.descriptor, LOCK_EX | LOCK_NB) }
            } catch .system(_, _, .resourceTemporarilyUnavailable) {
                return nil
            }
            // The previous holder may have done the work.
            guard try file.status().st_nlink > 0 else { return nil }
        }
        self.number = number
        let length = Int(clamping: try file.length())
        try Self.requireRoom(for: length, in: path)
        records = QueueRecord.decode(try file.bytes(at: 0, count: length))
    }

    /// Reads a note as `init` does. Anybody can put something else in a note's place: work behind it must go on.
    ///
    /// - Parameter report: called with the path of what cannot be a note, or cannot be opened; the result is nil then.
    package static func read(
        _ number: UInt64, in keybag: FilePath, holding: Bool, unreadable report: (FilePath) -> Void
    ) throws(DataProtectionError) -> QueueNote? {
        do throws(DataProtectionError) {
            if number < FreeNumber.end { return try QueueNote(number, in: keybag, holding: holding) }
        } catch {
            guard error.isOfOneNote else { throw error }
        }
        report(path(number, in: keybag))
        return nil
    }

    private static func path(_ number: UInt64, in keybag: FilePath) -> FilePath {
        keybag.appending(directoryName).appending("\(number)")
    }

    private static func requireRoom(for length: Int, in path: FilePath) throws(DataProtectionError) {
        guard length <= maximumLength else { throw .system(path, operation: "read", .fileTooLarge) }
    }

    /// Where the note is.
    package var path: FilePath { file.path }

    /// Adds what came of the work. When this returns it lasts.
    ///
    /// It takes the place of an earlier failure and is not said twice: a disk may be full for a long time.
    package mutating func add(_ record: QueueRecord) throws(DataProtectionError) {
        if case .failed = records.last { records.removeLast() }
        // The process that wrote the record may have been killed before the record was on the disk.
        if records.last == record { return try file.flushAll() }
        // Behind the last whole record: a torn one was never acknowledged.
        let end = records.reduce(0) { $0 + $1.encoded.count }
        try Self.requireRoom(for: end + record.encoded.count, in: file.path)
        try file.write(record.encoded, at: UInt64(end))
        try file.truncate(to: UInt64(end + record.encoded.count))
        try file.flushAll()
        records.append(record)
    }

    /// The work is done, or of no use any more. A note that comes back through a power cut costs one look.
    package func remove() throws(DataProtectionError) { try AtomicReplace.remove(file.path) }

    /// The numbers of all notes, ascending.
    package static func numbers(in keybag: FilePath) throws(DataProtectionError) -> [UInt64] {
        try DirectoryListing.namesIfThere(in: keybag.appending(directoryName))
            .compactMap { name in UInt64(name).flatMap { "\($0)" == name ? $0 : nil } }.sorted()
    }
}

extension DataProtectionError {
    /// Whether it is about the one note that could not be read, and not about the disk, memory or this process.
    fileprivate var isOfOneNote: Bool {
        if case .notRegularFile = self { return true }
        return [.tooManySymbolicLinkLevels, .permissionDenied, .notPermitted, .fileTooLarge].contains(errno)
    }
}
