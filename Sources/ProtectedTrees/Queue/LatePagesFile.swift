import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Keeps pages of a mapping that the kernel delivers when the class key of their file has gone, until the next unlock. FORMAT.md §2.8, *late*.
///
/// They are in a file beside a note of the queue, and outlive this process. While this object is there, nobody else works on the note.
package final class LatePagesFile: @unchecked Sendable {  // whoever has it uses it under a lock
    private let keybag: Keybag
    private let pages: LatePages
    /// Nil once ``forgetKey()`` was called.
    private var key: LatePagesKey?
    /// Nil for a file that has no name any more: nobody else could get at it later.
    private var note: QueueNote?
    private let data: LowerFile
    /// Where the next record begins.
    private var end = UInt64(LatePages.headerLength)
    private var count: UInt64 = 0
    /// Of the state that the pages were stored over, and of what our own tries to write them have made of it.
    private var counters: Set<UInt64>

    /// Begins to keep pages. What was written to the file is committed first.
    ///
    /// - Throws: `system`: nothing is kept then.
    package init(of file: ProtectedFile, under key: LatePagesKey, keybag: Keybag) throws(DataProtectionError) {
        try file.sync()
        // No commit has the last number: if nobody knows the state, the pages go beside the file.
        let counter = (try? file.contentCounter()) ?? .max
        pages = LatePages(of: key.prefix, salt: key.salt, counter: counter)
        (self.keybag, self.key, counters) = (keybag, key, [counter])
        let directory = keybag.directory.appending(QueueNote.directoryName)
        try OwnDirectory.make(directory)
        let unnamed = try UnnamedFile(DirectoryEntry(Self.name(key.salt), in: LowerDirectory(directory)))
        _ = try retrying(directory, "fchmod") { fchmod(unnamed.file.descriptor, 0o600) }
        try unnamed.file.write(pages.encoded, at: 0)
        data = LowerFile(path: unnamed.entry.path, descriptor: try unnamed.file.duplicate())
        guard try file.lower.status().st_nlink > 0 else { return }
        // Without the pages the note costs a look, but without the note nobody would find the pages.
        let reference = try FileReference(file.lower, key.prefix.fileID, named: file.lower.place())
        note = try QueueNote(.late(reference, salt: key.salt), in: keybag.directory)
        try unnamed.publish(replacing: false)
    }

    /// Where they are.
    package var path: FilePath { data.path }

    /// What the file beside the notes is called.
    static func name(_ salt: [UInt8]) -> FilePath.Component { FilePath.Component(Hexadecimal.text(salt) + ".late")! }

    /// Keeps bytes. They outlive this process when this returns, and a power cut after ``flush()``.
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
            try data.write(record, at: end)
            end += UInt64(record.count)
            count += 1
            done += piece.count
        }
    }

    package func flush() throws(DataProtectionError) { try data.flush() }

    /// Wipes the key: the kernel has no more pages to deliver.
    package func forgetKey() { key = nil }

    /// Writes the pages into their file, or beside it if its contents are others by now. Then they are kept no longer.
    ///
    /// - Throws: as ``ProtectedFile/write(_:at:)``: they stay. Call it again then, before anything else is written to the file.
    package func merge(into file: ProtectedFile) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try keybag.merge(data, into: file, ifCounterIs: counters.contains)
        } catch {
            // A lock may have come in between, and a part of them is committed.
            try? file.sync()
            if let counter = try? file.contentCounter() { counters.insert(counter) }
            throw error
        }
        remove()
    }

    /// The file is gone: nobody can ask for the pages any more.
    package func remove() {
        guard let note else { return }
        // That one of them stays costs a look.
        try? AtomicReplace.remove(data.path)
        try? note.remove()
        self.note = nil
    }
}

extension Keybag {
    /// Writes the pages that were kept of a file into it.
    func mergeLatePages(
        of reference: FileReference, _ salt: [UInt8]
    ) throws(DataProtectionError) -> QueuedWorkResult.Outcome {
        let queue = try LowerDirectory(directory.appending(QueueNote.directoryName))
        let name = LatePagesFile.name(salt)
        guard try queue.status(of: name) != nil else { return .unneeded }
        let data = try queue.file(name, flags: O_RDONLY, path: queue.path.entry(name))
        // It may only have been moved: the pages are not given up.
        guard let found = try reference.find() else {
            throw .system(reference.path, operation: "open", .noSuchFileOrDirectory)
        }
        let file = try ProtectedFile.writing(found, keybag: self)
        do throws(DataProtectionError) {
            try merge(data, into: file, ifCounterIs: nil)
        } catch {
            file.discard()
            throw error
        }
        try file.close()
        try queue.remove(name)
        return .done
    }

    /// - Parameter isExpected: whether the pages were stored over contents with this counter; nil: as they say themselves.
    fileprivate func merge(
        _ data: LowerFile, into file: ProtectedFile, ifCounterIs isExpected: ((UInt64) -> Bool)?
    ) throws(DataProtectionError) {
        let stored = try StoredLatePages(data, of: file)
        // Nothing is written unless all of them open.
        try stored.lendEach { _, _ in }
        try file.beginWriting()
        let counter = try file.contentCounter()
        if isExpected?(counter) ?? (counter == stored.counter) {
            try stored.write(to: file)
            return try file.sync()
        }
        // Whoever has written them may have been killed before they were removed.
        guard try !stored.areThere(in: file) else { return }
        try save(stored, beside: file)
    }

    /// Pages of an earlier state do not replace what was written since. They go into a file of their own, at their offsets.
    private func save(_ pages: StoredLatePages, beside file: ProtectedFile) throws(DataProtectionError) {
        let place = try DirectoryEntry(file.lower.place())
        var number = 1
        while true {
            // A path that ends in these characters has a last component.
            let name = FilePath(bytes: place.path.bytes + Array(".late-\(number)".utf8)).lastComponent!
            let entry = DirectoryEntry(name, in: place.directory)
            do throws(DataProtectionError) {
                let saved = try ProtectedFile.create(entry, atLeast: file.openedClass(), mode: 0o600, keybag: self)
                do throws(DataProtectionError) {
                    try pages.lendEach { bytes, offset throws(DataProtectionError) in
                        try saved.write(bytes, at: Int64(offset))
                    }
                    try saved.close()
                } catch {
                    saved.discard()
                    try? place.directory.remove(name)
                    throw error
                }
                return warn(.latePagesSaved(file.path, in: entry.path))
            } catch .exists {
                number += 1
            }
        }
    }
}

/// Kept pages, as they are read.
private struct StoredLatePages {
    private let data: LowerFile
    private let pages: LatePages
    private let key: LatePagesKey

    var counter: UInt64 { pages.counter }

    /// - Throws: as ``ProtectedFile/read(into:at:)``; `damaged`.
    init(_ data: LowerFile, of file: ProtectedFile) throws(DataProtectionError) {
        self.data = data
        let start = try data.bytes(at: 0, count: LatePages.headerLength)
        guard start.count == LatePages.headerLength else { throw Self.damaged(data) }
        key = try file.latePagesKey(salt: Array(start[8..<24]))
        guard let pages = LatePages(of: key.prefix, decoding: start) else { throw Self.damaged(data) }
        self.pages = pages
    }

    private static func damaged(_ data: LowerFile) -> DataProtectionError {
        .damaged(data.path, .redoRecord, reason: "kept pages do not open", offset: nil)
    }

    /// Lends each page, in the order in which the kernel has delivered them. One at the end that is not whole was never answered for.
    func lendEach(
        _ body: (UnsafeRawBufferPointer, UInt64) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        let length = try data.length()
        let text = WipedBuffer(count: LatePages.longest)
        var place = UInt64(LatePages.headerLength)
        var number: UInt64 = 0
        while true {
            let start = try data.bytes(at: place, count: LatePages.recordHeaderLength)
            guard start.count == LatePages.recordHeaderLength else { return }
            guard let record = LatePages.record(decoding: start) else { throw Self.damaged(data) }
            let sealedCount = record.count + ChunkLayout.overhead
            let end = place + UInt64(LatePages.recordHeaderLength + sealedCount)
            guard end <= length else { return }
            let sealed = try data.bytes(at: place + UInt64(LatePages.recordHeaderLength), count: sealedCount)
            do throws(KeyError) {
                try pages.open(
                    sealed, of: record, number: number, under: key.secret.bytes, into: text.prefix(record.count))
            } catch .authenticationFailed {
                throw Self.damaged(data)
            } catch {
                throw .cryptography(error)
            }
            try body(UnsafeRawBufferPointer(text.prefix(record.count)), record.offset)
            (place, number) = (end, number + 1)
        }
    }

    func write(to file: ProtectedFile) throws(DataProtectionError) {
        let size = UInt64(try file.size())
        try lendEach { bytes, offset throws(DataProtectionError) in
            let count = Int(min(UInt64(bytes.count), size - min(offset, size)))
            if count > 0 { try file.write(UnsafeRawBufferPointer(rebasing: bytes.prefix(count)), at: Int64(offset)) }
        }
    }

    /// Whether the file has all of these bytes, or those that came after them at the same places.
    func areThere(in file: ProtectedFile) throws(DataProtectionError) -> Bool {
        let size = UInt64(try file.size())
        let buffer = WipedBuffer(count: LatePages.longest)
        var areThere = true
        try lendEach { bytes, offset throws(DataProtectionError) in
            let count = Int(min(UInt64(bytes.count), size - min(offset, size)))
            guard areThere, count > 0 else { return }
            let read = try file.read(into: buffer.prefix(count), at: Int64(offset))
            areThere = read == count && memcmp(buffer.bytes.baseAddress!, bytes.baseAddress!, count) == 0
        }
        return areThere
    }
}
