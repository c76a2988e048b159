import DurableFiles
import Glibc
import Keybags
import ProtectionFormat
public import SystemPackage

/// Putting in its place what a writer that died has left in redo records: no key is needed. FORMAT.md §4 rule 13.
extension ProtectedFile {
    /// Copies the chunks of a file's redo records to their places. The records stay in force until the next writer ends them.
    ///
    /// Never needed for reading or writing, which do the same by themselves; it is for somebody without keys who wants the chunks
    /// where they belong, before a file is copied in part, say. Killed at any time it may be done again. A file without such records
    /// is only read. The owner of a file needs no permission to write to it.
    /// - Parameter path: a regular file; a link is not followed.
    /// - Returns: how many chunks were copied; 0 when the last writer has closed the file.
    /// - Throws: `notProtected`; `notRegularFile`; `busy` while somebody writes; `damaged` when no head is whole; `system`.
    @discardableResult
    public static func repair(fileAt path: FilePath) throws(DataProtectionError) -> Int {
        try repair(LowerFile.toLookAt(path)) { () throws(DataProtectionError) in
            try LowerFile.notFollowing(path) { () throws(DataProtectionError) in
                try .forHeads(of: path, flags: O_NOFOLLOW)
            }
        }
    }

    /// The same of a file that was found by its directory.
    @discardableResult
    package static func repair(_ entry: DirectoryEntry) throws(DataProtectionError) -> Int {
        let file = try entry.directory.file(entry.name, flags: O_RDONLY, path: entry.path)
        return try repair(file) { () throws(DataProtectionError) in
            try file.forHeads { () throws(DataProtectionError) in
                try entry.directory.file(entry.name, flags: O_RDWR, path: entry.path)
            }
        }
    }

    private static func repair(
        _ seen: LowerFile, _ opening: () throws(DataProtectionError) -> LowerFile
    ) throws(DataProtectionError) -> Int {
        guard FileState(try HeadPair(lookingAt: seen)).hasArea else { return 0 }
        let file = try opening()
        guard try file.tryByteLock(OpenFile.writerLock, .exclusive) else { throw .busy(file.path) }
        try file.lockSlot(.exclusive, waiting: LowerFile.patience)
        defer { withExtendedLifetime(file) {} }
        var state = FileState(try HeadPair(of: file))
        do throws(Trouble) { try state.scan(file, headKey: nil) } catch { throw error.reported }
        guard state.hasRecords else { return 0 }
        // What is in the page cache only must not be gone when its copy is half done.
        try file.flush()
        let count = try state.putInPlace(in: file)
        try file.flush()
        try file.close()
        return count
    }
}
