import DurableFiles
import Glibc
import Keybags
import ProtectedFiles
public import ProtectionKeys
public import SystemPackage

/// A keybag that is going to be destroyed: first what it is, for the question; then ``perform(warn:)``.
///
/// Every file protected under it becomes unreadable for ever, unless a copy or an export of the keybag exists. The device
/// key stays: other keybags of the user may need it. Everything is removed by descriptors of the directories that hold it: links in
/// the keybag's directory are not followed. FORMAT.md §2.10.
public struct KeybagErasure: Sendable {
    /// Absolute, and no link.
    public let directory: FilePath
    /// What a copy says, damaged or not, else under which name the directory was used here; nobody has authenticated it. Nil
    /// if nothing says it: then keys in the ring cannot be found.
    public var uuid: KeybagUUID? { uuids.first }

    /// All names that the keybag may have, and those of keybags that were used in the directory before: the keys of all of them go.
    private let uuids: [KeybagUUID]
    private let hardware: (any HardwareSecretSource)?
    private var file: KeybagFile { KeybagFile(directory: directory) }

    /// Looks at what is there; damaged, or half erased by a process that was killed, is fine.
    ///
    /// - Throws: `keybagNotFound` if nothing of a keybag is there, `keybagUnsafe` if its directory belongs to another user,
    ///   `unsupported`, `system`.
    public init(at directory: FilePath) throws(DataProtectionError) { try self.init(at: directory, hardware: nil) }

    /// - Parameter hardware: nil: this machine's TPM.
    package init(at directory: FilePath, hardware: (any HardwareSecretSource)?) throws(DataProtectionError) {
        self.hardware = hardware
        self.directory = try Self.resolved(directory)
        let file = KeybagFile(directory: self.directory)
        let remembered = try KeybagRegistry.uuids(leadingTo: self.directory)
        if let uuid = try file.usableUUID() {
            uuids = [uuid] + remembered.filter { $0 != uuid }
        } else {
            uuids = try remembered + file.uuidsInDamagedCopies().filter { !remembered.contains($0) }
        }
        if uuids.isEmpty, try !file.isKeybagThere() { throw .because(KeybagFailure.keybagNotFound(directory)) }
        _ = try open()
    }

    /// Removes its keys from the ring, overwrites and removes its files, and forgets where it was.
    ///
    /// Killed half way, it is finished by the next one. Flash memory, snapshots and backups can keep what was overwritten. Of a keybag that is bound
    /// to a TPM, nothing that they keep opens with the passcode: its secret is destroyed when the copies are.
    /// - Parameter warn: gets what the TPM did not destroy.
    /// - Returns: what else is in the directory, which is left with it.
    /// - Throws: `keysElsewhere` if the keyring of another user namespace still holds the keys, `lockUnproven` if an unlock that is under way may load
    ///   them again, `lockIncomplete`, `keyringUnavailable`: nothing is destroyed then; `keybagUnsafe`, `system`.
    public func perform(
        warn: (ProtectionWarning) -> Void = { _ in }
    ) throws(DataProtectionError) -> [FilePath] {
        let links = try KeybagRegistry.uuids(leadingTo: directory).filter { uuids.contains($0) }
        let root = try open()
        try RingPlaces(directory: directory).refuseElsewhere()
        if try !RingKeys.unlockedElsewhere(Array(uuids)).isEmpty {
            throw .because(KeybagFailure.keysElsewhere(keybag: directory, namespaces: []))
        }
        try evict()
        if let root {
            let hardware = try HardwareErasure(of: directory, uuids, hardware: hardware)
            try destroyCopies(in: root)
            // From here on nothing is refused any more.
            try hardware.perform(warn)
        }
        // An unlock that was under way finds no keybag now, or had put its keys there before.
        try evict()
        if let root { try removeOtherFiles(in: root) }
        let left = try removeIfEmpty()
        for uuid in links { try AtomicReplace.remove(Locations.registry.appending(uuid.description)) }
        return left
    }

    /// Where a link leads; the path itself where nothing is there any more.
    private static func resolved(_ path: FilePath) throws(DataProtectionError) -> FilePath {
        if let found = path.canonical { return found }
        return try path.absolute()
    }

    /// The keybag's directory; nil if there is none.
    private func open() throws(DataProtectionError) -> LowerDirectory? {
        let root: LowerDirectory
        do throws(DataProtectionError) { root = try LowerDirectory(directory) } catch {
            guard error.errno == .noSuchFileOrDirectory || error.errno == .notDirectory else { throw error }
            return nil
        }
        let owner = try root.status().st_uid
        guard owner == geteuid() else {
            throw .keybagUnsafe(directory, reason: "it belongs to uid \(owner), not to you (uid \(geteuid()))")
        }
        return root
    }

    /// Under the lock that programs take to replace the copies: none is put back meanwhile.
    private func destroyCopies(in root: LowerDirectory) throws(DataProtectionError) {
        _ = try retrying(directory, "flock") { flock(root.descriptor, LOCK_EX) }
        defer { _ = flock(root.descriptor, LOCK_UN) }
        var failure: DataProtectionError?
        for name in try root.names() where KeybagFile.isCopy(name.string) {
            // A bad block of one copy must not save the other one.
            do throws(DataProtectionError) { try destroy(name, in: root) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    private func removeOtherFiles(in root: LowerDirectory) throws(DataProtectionError) {
        let records: [(String, off_t)] = [
            (AttemptFile.name, 1024), (TransitionFile.name, 64), (RingPlaces.name, off_t(RingPlaces.length)),
        ]
        for (name, size) in records {
            // So named and of that size: else it is somebody else's.
            let name = FilePath.Component(name)!
            if try length(of: name, in: root) == size { try destroy(name, in: root) }
        }
        if AgentRecord.isThere(in: directory) { try root.remove(FilePath.Component(AgentRecord.name)!) }
        if ExportRecord(in: directory) != nil { try root.remove(FilePath.Component(ExportRecord.name)!) }
        // The values of both stores are sealed under keys that no key opens any more. What is in clear of secrets goes too.
        remove(DownloadsDirectory.name, in: root) { $0 == DownloadsDirectory.keyName }
        remove(SecretsKeys.directoryName, in: root) { _ in true }
        for name in [ClassChangeIntent.directoryName, QueueNote.directoryName] { remove(name, in: root) }
        if let run = own(RunDirectory.name, in: root) { for name in ["clients", "mounts"] { remove(name, in: run) } }
        remove(RunDirectory.name, in: root)
    }

    private func evict() throws(DataProtectionError) {
        for uuid in uuids {
            let ring = RingKeys(uuid)
            // Those of copies of it: their keys come into the same ring.
            let doubt = UnlockUnderWay.stop(uuid, outside: directory)
            guard OwnDirectory.exists(directory) else {
                try ring.evict(everything: true)
                if let doubt { throw doubt }
                continue
            }
            // The counter stops an unlock that began before.
            let transition = TransitionFile(directory: directory)
            let turn = try transition.lockTurn(makesFile: OwnDirectory.isOnlyOwners(directory)) {
                record throws(DataProtectionError) in
                try ring.evict(everything: true)
                (record.deadline, record.limit) = (0, 0)
            }
            try turn.requireProof(of: directory)
            if let doubt { throw doubt }
        }
    }

    /// Overwrites a file with zeros, flushes it, and removes it whether or not that went. A link is removed; a directory is
    /// none of ours.
    private func destroy(_ name: FilePath.Component, in place: LowerDirectory) throws(DataProtectionError) {
        var failure: DataProtectionError?
        do throws(DataProtectionError) { try overwrite(name, in: place) } catch { failure = error }
        do throws(DataProtectionError) { try place.remove(name) } catch .system(_, _, .isDirectory) {}
        try place.flush()
        if let failure { throw failure }
    }

    private func overwrite(_ name: FilePath.Component, in place: LowerDirectory) throws(DataProtectionError) {
        guard let length = try length(of: name, in: place) else { return }
        let file = try place.file(name, flags: O_WRONLY, path: place.path.entry(name))
        // Where others may write, it can be a second name of one of the user's other files.
        guard try file.status().st_nlink == 1 || OwnDirectory.isOnlyOwners(directory) else { return }
        let zeros = [UInt8](repeating: 0, count: 65_536)
        var offset: UInt64 = 0
        // Holes hold nothing: a file that somebody has made a tebibyte long must not fill the disk.
        while offset < UInt64(length), let data = try file.nextData(in: offset..<UInt64(length)) {
            let count = min(data.upperBound - data.lowerBound, UInt64(zeros.count))
            try file.write(Array(zeros.prefix(Int(count))), at: data.lowerBound)
            offset = data.lowerBound + count
        }
        try file.flushAll()
    }

    /// The length in bytes; nil if there is no regular file.
    private func length(of name: FilePath.Component, in place: LowerDirectory) throws(DataProtectionError) -> off_t? {
        guard let status = try place.status(of: name), status.st_mode & S_IFMT == S_IFREG else { return nil }
        return status.st_size
    }

    /// A directory of the user; nil if there is none. A link is none.
    private func own(_ name: String, in place: LowerDirectory) -> LowerDirectory? {
        guard let found = try? place.directory(FilePath.Component(name)!), (try? found.status().st_uid) == geteuid()
        else {
            return nil
        }
        return found
    }

    /// Removes a directory of ours and the files in it. What cannot be removed is reported with the keybag's directory.
    ///
    /// - Parameter isOverwritten: whether a file of that name is overwritten first. Notes hold paths and no keys.
    private func remove(
        _ name: String, in place: LowerDirectory, overwriting isOverwritten: (String) -> Bool = { _ in false }
    ) {
        guard let inner = own(name, in: place) else { return }
        for child in (try? inner.names()) ?? [] where Self.isOurs(child.string, in: name) {
            if isOverwritten(child.string) { try? destroy(child, in: inner) } else { try? inner.remove(child) }
        }
        try? place.unlink(FilePath.Component(name)!, isDirectory: true)
    }

    /// Whether something in one of our directories can be ours. What is not is left, and the directory with it.
    private static func isOurs(_ name: String, in directory: String) -> Bool {
        let ours: [String]
        switch directory {
        case DownloadsDirectory.name:
            ours = ["queue.sqlite", "trust-exceptions", DownloadsDirectory.keyName, "machine", "runner", Bell.name]
        case SecretsKeys.directoryName: ours = ["secrets.sqlite", "machine", Bell.name]
        // Numbers of notes, and salts.
        case QueueNote.directoryName: return name.prefix { $0 != "." }.allSatisfy(\.isHexDigit)
        default: return true
        }
        // With what SQLite appends, and the names that they have while they are written.
        return ours.contains { own in
            name == own || ["\(own)-", "\(own).", ".\(own)"].contains { name.hasPrefix($0) }
        }
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
