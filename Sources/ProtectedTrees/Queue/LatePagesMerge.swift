import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
import ProtectionFormat
import ProtectionKeys
import SystemPackage

/// Writing pages that the kernel delivered after a lock into the file that they are of. FORMAT.md §2.8.
struct LatePagesMerge {
    let keybag: Keybag

    /// Writes those that were kept in the queue.
    func perform(
        _ reference: FileReference, _ salt: [UInt8]
    ) throws(DataProtectionError) -> QueuedWorkResult.Outcome {
        let queue = try LowerDirectory(keybag.directory.appending(QueueNote.directoryName))
        let name = LatePagesFile.name(salt)
        guard try queue.status(of: name) != nil else { return .unneeded }
        let data = try queue.file(name, flags: O_RDONLY, path: queue.path.entry(name))
        // It may only have been moved: the pages are not given up.
        guard let found = try reference.find() else {
            throw .system(reference.path, operation: "open", .noSuchFileOrDirectory)
        }
        let file = try ProtectedFile.writing(found, keybag: keybag)
        let isWhole: Bool
        do throws(DataProtectionError) {
            isWhole = try merge(data, into: file, ifCounterIs: nil)
        } catch {
            file.discard()
            throw error
        }
        try file.close()
        try discard(salt, in: queue, of: found.path, isWhole: isWhole)
        return .done
    }

    /// Removes pages that were merged. Those that do not open are kept, if possible under another name; without their note nothing reads them.
    func discard(
        _ salt: [UInt8], in queue: LowerDirectory, of path: FilePath, isWhole: Bool
    ) throws(DataProtectionError) {
        let name = LatePagesFile.name(salt)
        if isWhole { return try queue.remove(name) }
        var kept = FilePath.Component(Hexadecimal.text(salt) + ".damaged")!
        do throws(DataProtectionError) { try queue.move(name, to: kept, in: queue, replacing: true) } catch {
            kept = name
        }
        keybag.warn(.latePagesDamaged(path, in: queue.path.entry(kept)))
    }

    /// - Parameter isExpected: whether the pages were stored over contents with this counter; nil: as they say themselves.
    /// - Returns: whether all of them opened.
    func merge(
        _ data: LowerFile, into file: ProtectedFile, ifCounterIs isExpected: ((UInt64) -> Bool)?
    ) throws(DataProtectionError) -> Bool {
        let stored = try StoredLatePages(data, of: file)
        var isWhole = try stored.lendEach { _, _ in }
        try file.beginWriting()
        let counter = try file.contentCounter()
        if isExpected?(counter) ?? (counter == stored.counter) {
            // Somebody may have altered them since.
            isWhole = try stored.write(to: file) && isWhole
            try file.sync()
            return isWhole
        }
        // A process that wrote the pages into the file may have been killed before it removed them from the queue.
        if try !stored.areThere(in: file) { try save(stored, beside: file) }
        return isWhole
    }

    /// Pages of an earlier state do not replace what was written since. They go into a file of their own, at their offsets.
    private func save(_ pages: StoredLatePages, beside file: ProtectedFile) throws(DataProtectionError) {
        let place = try DirectoryEntry(file.lower.place())
        var number = 1
        while true {
            let name = place.name.followed(by: ".late-\(number)")
            let entry = DirectoryEntry(name, in: place.directory)
            do throws(DataProtectionError) {
                let saved = try ProtectedFile.create(entry, atLeast: file.openedClass(), mode: 0o600, keybag: keybag)
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
                return keybag.warn(.latePagesSaved(file.path, in: entry.path))
            } catch .exists {
                number += 1
            }
        }
    }
}
