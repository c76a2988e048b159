import DataProtection
import Synchronization

/// What has come of a download so far: one protected file, or several in a row where one could not be opened again.
///
/// A `completeUnlessOpen` file goes on through a lock as long as it is open. If it is closed, or its process dies, while locked, it cannot be opened
/// before the next unlock: then bytes go to a new file, and the parts are joined after the unlock. A response announced as small stays in memory
/// until it is complete, or more bytes come a second later, and needs no file. One thread at a time.
final class PartialFile {
    /// Nothing can be done before the next unlock.
    struct Locked: Error {}
    /// The bytes that had come are gone, and must be downloaded again.
    struct Vanished: Error {}

    /// Where the bytes that have come are.
    enum Storage {
        /// Nobody has looked yet, or what was there changed: the list and the directory say it.
        case unread
        /// Nowhere: neither the list nor the directory has anything of this download.
        case nothing
        /// In the buffer alone. No file was begun, and nothing is noted.
        case inMemory(ResourceIdentity)
        /// In files of which none is open.
        case closed(PartialRecord)
        /// In files of which the last one is open, and in the buffer.
        case open(OpenPart)
    }

    let name: PartialName
    let request: DownloadRequest
    let store: DownloadStore
    let keys: [String: IntegrityKey]
    private var id: DownloadID { name.id }

    var storage: Storage
    let buffer = WriteBuffer()
    /// When everything that had come was flushed last.
    var lastSync = Clock.monotonic()
    /// So much at most is kept in memory alone, in bytes.
    private let memory: Int
    /// Set from any thread: what takes long ends soon.
    let isStopped = Atomic(false)

    /// Above so many bytes, or a second after the last time, what is written is flushed and noted.
    private static let syncBytes: UInt64 = 256 << 20
    private static let syncNanoseconds: UInt64 = 1_000_000_000

    /// - Parameters:
    ///   - isNew: whether neither the list nor the directory has anything of it.
    ///   - memory: in bytes; what is larger goes into a file at once.
    init(
        _ id: DownloadID, _ request: DownloadRequest, _ store: DownloadStore, keys: [String: IntegrityKey], isNew: Bool,
        memory: Int
    ) {
        name = PartialName(target: request.target, id: id)
        (self.request, self.store, self.keys) = (request, store, keys)
        storage = isNew ? .nothing : .unread
        self.memory = min(memory, WriteBuffer.capacity)
    }

    /// How many bytes have come, from the first on.
    var position: UInt64 {
        let end: UInt64 =
            switch storage {
            case .unread, .nothing, .inMemory: 0
            case .closed(let record): record.end
            case .open(let part): part.end
            }
        return end + UInt64(buffer.count)
    }

    /// What the list knows, or is to know with the next note; nil where it knows nothing.
    private var record: PartialRecord? {
        switch storage {
        case .unread, .nothing, .inMemory: nil
        case .closed(let record): record
        case .open(let part): part.record
        }
    }

    /// What the bytes that have come are of; nil: nothing says that.
    var resource: ResourceIdentity? { record?.resource }

    /// Whether everything is in one file, which is open, or in memory.
    var isInOnePiece: Bool {
        switch storage {
        case .unread, .nothing, .closed: false
        case .inMemory: true
        case .open(let part): part.isOnly
        }
    }

    /// Whether nothing of it is on disk yet.
    var isInMemory: Bool { if case .inMemory = storage { true } else { false } }

    /// Whether every byte is there, as far as the list knows.
    var isWhole: Bool { record.map { $0.isWhole && $0.resource.length == position } ?? false }

    // MARK: beginning

    /// Opens what is there, and puts parts together if it can be read; else only finds out how much there is.
    ///
    /// - Throws: ``Locked`` if it cannot go on before an unlock; ``DownloadError``; ``Superseded``.
    func prepare() throws {
        switch storage {
        case .inMemory: return
        case .nothing: return try requireKey()
        case .open(let part) where part.isOnly || !store.keybag.isProtectedDataAvailable: return
        case .open: try close()
        case .unread, .closed: break
        }
        // A part of which no byte was noted could be any file of that name.
        guard let found = try store.partial(of: id), let first = found.parts.first(where: { $0.synced > 0 }) else {
            storage = .unread
            try requireKey()
            try mapping { () throws(DataProtectionError) in try name.removeAll() }
            storage = .nothing
            return
        }
        storage = .closed(found)
        guard try canOpen() else {
            if request.partialClass != .completeUnlessOpen { throw Locked() }
            return
        }
        let part: OpenPart
        do throws(DataProtectionError) {
            let file = try SegmentChain(name: name, keybag: store.keybag).join(found.parts)
            let record = SegmentRecord(number: first.number, start: 0, synced: UInt64(try file.size()))
            part = try OpenPart(file, record, behind: [], of: found.resource, id)
        } catch .because(KeybagFailure.locked) {
            throw Locked()
        } catch {
            guard error.isOfLostPartial else { throw DownloadError.protection(error) }
            // It was removed, altered, or is under a key that was forgotten: a part of it would be worth nothing.
            return try startOver()
        }
        part.isWhole = found.isWhole
        storage = .open(part)
        try store.note(part.record, of: id)
        try mapping { () throws(DataProtectionError) in try name.removeAll(but: [part.number]) }
    }

    /// A `complete` file cannot be begun while locked.
    private func requireKey() throws {
        if request.partialClass == .complete, !store.keybag.isProtectedDataAvailable { throw Locked() }
    }

    /// Gives up everything that has come.
    func startOver() throws {
        discard()
        try store.forgetParts(of: id)
        storage = .unread
        try mapping { () throws(DataProtectionError) in try name.removeAll() }
        storage = .nothing
    }

    /// Gives up what is not noted.
    func discard() {
        buffer.removeAll()
        switch storage {
        case .unread, .nothing, .closed: break
        case .inMemory: storage = .nothing
        case .open(let part):
            part.file.discard()
            storage = .closed(part.record)
        }
    }

    private func canOpen() throws(DownloadError) -> Bool {
        switch request.partialClass {
        case .complete, .completeUnlessOpen: store.keybag.isProtectedDataAvailable
        // Class key C says who has made a part, whatever its class is.
        case .completeUntilFirstUserAuthentication, .none:
            try protected { () throws(DataProtectionError) in try store.keybag.state() } != .beforeFirstUnlock
        }
    }

    // MARK: writing

    /// The next bytes go behind those that are there.
    ///
    /// - Throws: `failed` where none are.
    func goOn() throws {
        switch storage {
        case .unread, .nothing, .inMemory: throw Self.nothingIsThere
        case .open(let part): part.isWhole = false
        case .closed(var record):
            record.isWhole = false
            try begin(SegmentRecord(number: record.nextNumber, start: record.end, synced: 0), behind: record)
        }
    }

    /// The next byte is the first one of `resource`; whatever was there is removed.
    func restart(as resource: ResourceIdentity) throws {
        discard()
        // What is in memory alone could not be sealed as class A after a lock that nobody has announced.
        if case .nothing = storage, request.partialClass == .completeUnlessOpen, let length = resource.length,
            length <= memory
        {
            (storage, lastSync) = (.inMemory(resource), Clock.monotonic())
            buffer.reserve(Int(length))
        } else {
            try beginAnew(resource)
        }
    }

    /// What is in memory goes the way of larger ones: into a file that a process which goes on later finds.
    private func spill() throws {
        guard case .inMemory(let resource) = storage else { return }
        storage = .nothing
        try beginAnew(resource)
    }

    private func beginAnew(_ resource: ResourceIdentity) throws {
        let hasOthers = if case .nothing = storage { false } else { true }
        let number = record?.nextNumber ?? 0
        let part = try begin(
            SegmentRecord(number: number, start: 0, synced: 0), behind: PartialRecord(resource: resource, parts: []))
        if hasOthers { try mapping { () throws(DataProtectionError) in try name.removeAll(but: [number]) } }
        part.checks = try RunningChecks(request.checks, keys: keys)
    }

    /// Makes the file of a new part.
    @discardableResult
    private func begin(_ last: SegmentRecord, behind earlier: PartialRecord) throws -> OpenPart {
        var next = earlier
        next.parts.append(last)
        // Noted first: a file that nothing tells of would stay for ever.
        try store.note(next, of: id, isLasting: false)
        // From here on there may be a file, also where an error says that it was not made.
        storage = .closed(next)
        do throws(DataProtectionError) {
            let path = try name.path(last.number).stored()
            // Made by a process that was killed before it could write to it.
            try AtomicReplace.remove(path)
            let file = try ProtectedFile.createLarge(path, as: request.partialClass, keybag: store.keybag)
            let part = try OpenPart(file, last, behind: earlier.parts, of: earlier.resource, id)
            storage = .open(part)
            return part
        } catch .because(KeybagFailure.locked) {
            throw Locked()
        } catch {
            throw DownloadError.protection(error)
        }
    }

    /// Takes the next bytes. They are in the file, or will be when ``sync(isLasting:)`` has returned.
    func append(_ bytes: UnsafeRawBufferPointer) throws {
        // What of a `complete` file is only in memory could not be sealed any more after a lock that nobody has announced.
        let isBuffered = isInMemory || (request.partialClass != .complete && bytes.count < WriteBuffer.capacity / 4)
        if buffer.count > 0 || isBuffered {
            var rest = bytes
            while rest.count > 0 {
                rest = buffer.fill(rest)
                if buffer.isFull, rest.count > 0 || !isInMemory { try flushBuffer() }
            }
        } else {
            try write(bytes)
        }
        let isLate = Clock.monotonic() - lastSync >= Self.syncNanoseconds
        switch storage {
        case .unread, .nothing, .closed: throw Self.nothingIsThere
        case .inMemory: if isLate { try sync() }
        case .open(let part):
            part.writeBehind()
            // In between, the disk is busy enough.
            if part.unsynced >= Self.syncBytes || (isLate && !part.isFlushing) { try sync() }
        }
    }

    /// Writes what is in the buffer.
    func flushBuffer() throws {
        // Also where it cannot be written: what is not noted may be of another version than what the list knows.
        defer { buffer.removeAll() }
        try spill()
        if buffer.count > 0 { try write(buffer.bytes) }
    }

    private func write(_ bytes: UnsafeRawBufferPointer) throws {
        guard case .open(let part) = storage else { throw Self.nothingIsThere }
        try mappingLocked { () throws(DataProtectionError) in try part.write(bytes) }
        try part.checks?.update(bytes)
    }

    static let nothingIsThere = DownloadError.failed(
        DownloadFailure(.lost, "bytes have come, and nothing is open to take them"))
}
