import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Keeps data of shared mappings that the kernel delivers after a lock. The next unlock writes it to its file. FORMAT.md §2.8, *late*.
///
/// It is in a file beside a note of the queue, and outlives this process. Where that cannot be made or written to, for example because the disk
/// is full, it is in memory, sealed in the same way. While this object is there, nobody else works on the note.
package final class LatePagesFile: @unchecked Sendable {  // its owner uses it under a lock
    private let keybag: Keybag
    private let file: ProtectedFile
    private let pages: LatePages
    /// What names the file in the note.
    private let prefix: Prefix
    /// Nil once ``forgetKey()`` was called.
    private var key: LatePagesKey?
    /// Nil for a file that has no name any more: nobody else could get at it later.
    private var note: QueueNote?
    private var data: LowerFile
    /// Bytes of ``data`` that are in memory.
    private var inMemory = 0
    /// Why they are.
    private var refusal: DataProtectionError?
    /// Of a flush. Records that come later are behind one that may not open.
    private var failure: DataProtectionError?
    /// Where the next record begins.
    private var end = UInt64(LatePages.headerLength)
    private var count: UInt64 = 0
    /// Of the state that the pages were stored over, and of what our own tries to write them have made of it.
    private var counters: Set<UInt64>

    /// Begins to keep pages. What was written to the file is committed first.
    ///
    /// - Throws: `system`: nothing is kept then.
    package init(of file: ProtectedFile, under key: LatePagesKey, keybag: Keybag) throws(DataProtectionError) {
        try? file.sync()  // what it says is said again by the next commit
        // No commit has the last number: if nobody knows the state, the pages go beside the file.
        let counter = (try? file.contentCounter()) ?? .max
        pages = LatePages(of: key.prefix, salt: key.salt, counter: counter)
        (self.keybag, self.file, self.key, prefix, counters) = (keybag, file, key, key.prefix, [counter])
        do throws(DataProtectionError) {
            (data, note) = try Self.store(pages.encoded, of: file, key.prefix, key.salt, in: keybag)
        } catch {
            data = try MemoryForPages.file(with: pages.encoded, insteadOf: error)
            (inMemory, refusal) = (pages.encoded.count, error)
        }
    }

    deinit { MemoryForPages.giveBack(inMemory) }

    /// Makes the file beside the notes, and the note.
    private static func store(
        _ bytes: [UInt8], of file: ProtectedFile, _ prefix: Prefix, _ salt: [UInt8], in keybag: Keybag
    ) throws(DataProtectionError) -> (LowerFile, QueueNote?) {
        let directory = keybag.directory.appending(QueueNote.directoryName)
        try OwnDirectory.makeLast(directory)
        let unnamed = try UnnamedFile(DirectoryEntry(Self.name(salt), in: LowerDirectory(directory)))
        _ = try retrying(directory, "fchmod") { fchmod(unnamed.file.descriptor, 0o600) }
        try unnamed.file.write(bytes, at: 0)
        // Without its beginning nobody could tell what the rest is.
        try unnamed.file.flush()
        let data = LowerFile(path: unnamed.entry.path, descriptor: try unnamed.file.duplicate())
        guard try file.lower.status().st_nlink > 0 else { return (data, nil) }
        // Without the pages the note costs a look, but without the note nobody would find the pages.
        let reference = try FileReference(file.lower, prefix.fileID, named: file.lower.place())
        let note = try QueueNote(.late(reference, salt: salt), in: keybag.directory)
        do throws(DataProtectionError) { try unnamed.publish(replacing: false) } catch {
            try? note.remove()
            throw error
        }
        return (data, note)
    }

    /// Where they are, or would be.
    package var path: FilePath { data.path }

    /// What the file beside the notes is called.
    static func name(_ salt: [UInt8]) -> FilePath.Component { FilePath.Component(Hexadecimal.text(salt) + ".late")! }

    /// Keeps bytes. Bytes on the disk survive this process once this returns, and a power cut after ``flush()``. Bytes in memory survive neither.
    ///
    /// - Parameter offset: where they are in the file's plaintext.
    /// - Throws: `system`: they are not kept. ENOKEY after ``forgetKey()``.
    package func add(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(DataProtectionError) {
        guard let key else { throw .system(data.path, operation: "write", Errno(rawValue: ENOKEY)) }
        var done = 0
        while done < bytes.count {
            let piece = UnsafeRawBufferPointer(rebasing: bytes[done...].prefix(LatePages.longest))
            let record = try withKeys { () throws(KeyError) in
                try pages.record(piece, at: offset + UInt64(done), number: count, under: key.secret.bytes)
            }
            try append(record)
            end += UInt64(record.count)
            count += 1
            done += piece.count
        }
    }

    private func append(_ record: [UInt8]) throws(DataProtectionError) {
        if let refusal {
            try MemoryForPages.take(record.count, insteadOf: refusal)
            inMemory += record.count
            return try data.write(record, at: end)
        }
        do throws(DataProtectionError) { try data.write(record, at: end) } catch {
            // What is on the disk so far stays there, and counts if this process is killed.
            let kept = try data.bytes(at: 0, count: Int(end))
            data = try MemoryForPages.file(with: kept + record, insteadOf: error)
            (inMemory, refusal) = (kept.count + record.count, error)
        }
    }

    /// - Throws: why they are in memory only; an error of the disk, again each time: nobody knows any more what is there.
    package func flush() throws(DataProtectionError) {
        if let failure { throw failure }
        if let refusal {
            // There may be room by now.
            guard note == nil else { throw refusal }
            let (stored, note) = try Self.store(
                data.bytes(at: 0, count: Int(end)), of: file, prefix, pages.salt, in: keybag)
            MemoryForPages.giveBack(inMemory)
            (data, self.note, inMemory, self.refusal) = (stored, note, 0, nil)
        }
        do throws(DataProtectionError) { try data.flush() } catch {
            failure = error
            throw error
        }
    }

    /// Wipes the key: the kernel has no more pages to deliver.
    package func forgetKey() { key = nil }

    /// Writes the pages into their file, or beside it if its contents are others by now. Then they are kept no longer.
    ///
    /// - Throws: as ``ProtectedFile/write(_:at:)``: they stay. Call it again then, before anything else is written to the file.
    package func merge(into file: ProtectedFile) throws(DataProtectionError) {
        let isWhole: Bool
        do throws(DataProtectionError) {
            isWhole = try LatePagesMerge(keybag: keybag).merge(data, into: file, ifCounterIs: counters.contains)
        } catch {
            // A lock may have come in between, and a part of them is committed.
            try? file.sync()
            if let counter = try? file.contentCounter() { counters.insert(counter) }
            throw error
        }
        remove(isWhole: isWhole)
    }

    /// The file is gone: nobody can ask for the pages any more.
    package func remove() { remove(isWhole: true) }

    private func remove(isWhole: Bool) {
        guard let note else { return }
        // That one of them stays costs a look.
        if let queue = try? LowerDirectory(keybag.directory.appending(QueueNote.directoryName)) {
            try? LatePagesMerge(keybag: keybag).discard(pages.salt, in: queue, of: file.path, isWhole: isWhole)
        }
        try? note.remove()
        self.note = nil
    }
}
