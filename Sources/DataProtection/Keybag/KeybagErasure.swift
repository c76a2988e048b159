import Glibc
public import ProtectionKeys
public import SystemPackage

/// A keybag that is going to be destroyed: first what it is, for the question; then ``perform()``.
///
/// Every file protected under it becomes unreadable for ever, unless a copy or an export of the keybag exists. The device
/// key stays: other keybags of the user may need it. FORMAT.md §2.10.
public struct KeybagErasure: Sendable {
    /// Absolute, and no link.
    public let directory: FilePath
    /// What a copy says, damaged or not, else under which name the directory was used here; nobody has authenticated it. Nil
    /// if nothing says it: then keys in the ring cannot be found.
    public var uuid: KeybagUUID? { uuids.first }

    /// All names that the keybag may have: more than one only if it is damaged.
    private let uuids: [KeybagUUID]
    private var file: KeybagFile { KeybagFile(directory: directory) }

    /// Looks at what is there; damaged, or half erased by a process that was killed, is fine.
    ///
    /// - Throws: `keybagNotFound` if nothing of a keybag is there, `unsupported`.
    public init(at directory: FilePath) throws(DataProtectionError) {
        self.directory = try Self.resolved(directory)
        let file = KeybagFile(directory: self.directory)
        let remembered = try Keybag.rememberedUUIDs(leadingTo: self.directory)
        if let uuid = try file.usableUUID() {
            uuids = [uuid]
        } else {
            uuids = try remembered + file.uuidsInDamagedCopies().filter { !remembered.contains($0) }
        }
        if uuids.isEmpty, try !file.isAnythingThere() { throw .keybagNotFound(directory) }
    }

    /// Removes its keys from the ring, overwrites and removes its files, and forgets where it was.
    ///
    /// Killed half way, it is finished by the next one. Flash memory, snapshots and backups can keep what was overwritten.
    /// - Returns: what else is in the directory, which is left with it.
    /// - Throws: `lockIncomplete`, `keyringUnavailable`: nothing is destroyed then; `system`.
    public func perform() throws(DataProtectionError) -> [FilePath] {
        let links = try Keybag.rememberedUUIDs(leadingTo: directory).filter { uuids.contains($0) }
        try evict()
        try destroyCopies()
        // An unlock that was under way finds no keybag now, or had put its keys there before.
        try evict()
        let records: [(String, off_t)] = [
            (AttemptFile.name, 1024), (TransitionFile.name, 64), (RingPlaces.name, off_t(RingPlaces.length)),
        ]
        for (name, size) in records {
            // So named and of that size: else it is somebody else's.
            let path = directory.appending(name)
            if OwnDirectory.length(ofFile: path) == size { try destroy(path) }
        }
        if AgentRecord.isThere(in: directory) { try AtomicReplace.remove(directory.appending(AgentRecord.name)) }
        if ExportRecord(in: directory) != nil { try AtomicReplace.remove(directory.appending(ExportRecord.name)) }
        removeDownloads()
        removeSecrets()
        for name in [ClassChangeIntent.directoryName, QueueNote.directoryName] { removeNotes(in: name) }
        RunDirectory(of: directory).remove()
        let left = try removeIfEmpty()
        for uuid in links { try AtomicReplace.remove(Locations.registry.appending(uuid.description)) }
        return left
    }

    /// Where a link leads; the path itself where nothing is there any more.
    private static func resolved(_ path: FilePath) throws(DataProtectionError) -> FilePath {
        guard let found = path.withPlatformString({ realpath($0, nil) }) else { return try Keybag.absolute(path) }
        defer { free(found) }
        return FilePath(platformString: found)
    }

    /// Under the lock of who replaces them: none is put back behind our back.
    private func destroyCopies() throws(DataProtectionError) {
        guard OwnDirectory.exists(directory) else { return }
        try file.withDirectoryLock { () throws(DataProtectionError) in
            var failure: DataProtectionError?
            for path in try file.copies() {
                // A bad block of one copy must not save the other one.
                do throws(DataProtectionError) { try destroy(path) } catch { failure = failure ?? error }
            }
            if let failure { throw failure }
        }
    }

    private func evict() throws(DataProtectionError) {
        for uuid in uuids {
            let ring = RingKeys(uuid)
            guard OwnDirectory.exists(directory) else {
                try ring.evict(everything: true)
                continue
            }
            // The counter stops an unlock that began before.
            try TransitionFile(directory: directory).exclusivelyOrAnyway { record throws(DataProtectionError) in
                try ring.evict(everything: true)
                (record.deadline, record.limit) = (0, 0)
            }
        }
    }

    /// Overwrites a file with zeros, flushes it, and removes it whether or not that went. A link is removed; a directory is
    /// none of ours.
    private func destroy(_ path: FilePath) throws(DataProtectionError) {
        var failure: DataProtectionError?
        do throws(DataProtectionError) { try overwrite(path) } catch { failure = error }
        do throws(DataProtectionError) { try AtomicReplace.remove(path) } catch .system(_, _, .isDirectory) {}
        try AtomicReplace.flushDirectory(directory)
        if let failure { throw failure }
    }

    private func overwrite(_ path: FilePath) throws(DataProtectionError) {
        guard let length = OwnDirectory.length(ofFile: path) else { return }
        let file = try LowerFile(path, flags: O_WRONLY | O_NOFOLLOW | O_NONBLOCK)
        let zeros = [UInt8](repeating: 0, count: 65_536)
        for offset in stride(from: 0, to: Int(length), by: zeros.count) {
            try file.write(Array(zeros.prefix(Int(length) - offset)), at: UInt64(offset))
        }
        try file.flushAll()
    }

    /// Notes hold paths and no keys; what cannot be removed is reported with the directory.
    private func removeNotes(in name: String) {
        let notes = directory.appending(name)
        for note in (try? DirectoryListing.names(of: notes)) ?? [] { try? AtomicReplace.remove(notes.appending(note)) }
        _ = notes.withPlatformString { rmdir($0) }
    }

    /// The list of downloads, whose values are sealed: under a key that no key opens any more.
    private func removeDownloads() {
        let downloads = directory.appending(Keybag.downloadsName)
        try? destroy(downloads.appending(Keybag.downloadsKeyName))
        removeNotes(in: Keybag.downloadsName)
    }

    /// The store of secrets, whose values no key opens any more. What is in clear of them goes too.
    private func removeSecrets() {
        let secrets = directory.appending(Keybag.secretsName)
        for name in (try? DirectoryListing.names(of: secrets)) ?? [] { try? destroy(secrets.appending(name)) }
        removeNotes(in: Keybag.secretsName)
    }

    private func removeIfEmpty() throws(DataProtectionError) -> [FilePath] {
        do throws(DataProtectionError) {
            _ = try retrying(directory, "rmdir") { directory.withPlatformString { rmdir($0) } }
            try AtomicReplace.flushDirectory(directory.directory)
        } catch {
            switch error {
            case .system(_, _, .noSuchFileOrDirectory): break
            case .system(_, _, .directoryNotEmpty), .system(_, _, .fileExists):
                return try DirectoryListing.components(of: directory).map { directory.appending($0) }
            default: throw error
            }
        }
        return []
    }
}
