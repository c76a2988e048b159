import DataProtection
import Glibc
import ProtectionKeys
import Synchronization

/// What has come of a download so far: one protected file, or several in a row where one could not be opened again.
///
/// A `completeUnlessOpen` file goes on through a lock as long as it is open. Who closed it, or died, while locked cannot open it
/// before the next unlock: then bytes go to a new file, and the parts are put together after it. What is announced to be small is
/// kept in memory until it is whole, or something comes a second later, and needs no such file. One thread at a time.
final class PartialFile {
    /// Nothing can be done before the next unlock.
    struct Locked: Error {}

    let name: PartialName
    let request: DownloadRequest
    let store: DownloadStore
    let keys: [String: IntegrityKey]
    private var id: DownloadID { name.id }

    /// The part that is open, the last of ``known``, and how much of it is written; `record.synced` is what is flushed.
    private(set) var open: (file: ProtectedFile, record: SegmentRecord, written: UInt64)?
    /// What the list knows, as it was noted last.
    private var known: PartialRecord?
    /// Whether there is nothing of this download, on disk or in the list.
    private var isFresh: Bool
    /// What is kept in ``buffer`` alone; no file was begun, and nothing is noted.
    private var inMemory: ResourceIdentity?
    /// So much at most, in bytes.
    private let memory: Int
    /// Sums of everything, as long as every byte from the first on has come by.
    var checks: RunningChecks?
    /// Set from any thread: what takes long ends soon.
    let isStopped = Atomic(false)
    let buffer = WriteBuffer()
    private var lastSync = Clock.monotonic()

    /// Of the file that is open.
    private var ahead = FlushAhead()
    private var aheadOf: UInt64 = 0

    /// So many new bytes are brought to the disk beside what comes.
    private static let aheadBytes: UInt64 = 8 << 20
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
        (self.request, self.store, self.keys, isFresh) = (request, store, keys, isNew)
        self.memory = min(memory, WriteBuffer.capacity)
    }

    /// How many bytes have come, from the first on.
    var position: UInt64 { (open.map { $0.record.start + $0.written } ?? known?.end ?? 0) + UInt64(buffer.count) }

    /// What the bytes that have come are of; nil: nothing says that.
    var resource: ResourceIdentity? { known?.resource }

    /// Whether everything is in one file, which is open, or in memory.
    var isInOnePiece: Bool { isInMemory || (open?.record.start == 0 && known?.parts.count == 1) }

    /// Whether every byte is there, as far as the list knows.
    var isWhole: Bool { known.map { $0.isWhole && $0.resource.length == position } ?? false }

    /// Whether nothing of it is on disk yet.
    var isInMemory: Bool { inMemory != nil }

    // MARK: beginning

    /// Opens what is there, and puts parts together if it can be read; else only finds out how much there is.
    ///
    /// - Throws: ``Locked`` if it cannot go on before an unlock; ``DownloadError``; ``Superseded``.
    func prepare() throws {
        if isInMemory { return }
        if open != nil, isInOnePiece || !store.keybag.isProtectedDataAvailable { return }
        if isFresh, open == nil { return try requireKey() }
        try close()
        known = try store.partial(of: id)
        // A part of which no byte was noted could be any file of that name.
        guard let found = known, let first = found.parts.first(where: { $0.synced > 0 }) else {
            try requireKey()
            known = nil
            try mapping { () throws(DataProtectionError) in try name.removeAll() }
            isFresh = true
            return
        }
        guard try canOpen() else {
            if request.partialClass != .completeUnlessOpen { throw Locked() }
            return
        }
        do throws(DataProtectionError) {
            let file = try SegmentChain(name: name, keybag: store.keybag).join(found.parts)
            let size = UInt64(try file.size())
            open = (file, SegmentRecord(number: first.number, start: 0, synced: size, fileID: first.fileID), size)
            (ahead, aheadOf) = (FlushAhead(), size)
        } catch .locked {
            throw Locked()
        } catch {
            guard error.isOfLostPartial else { throw DownloadError.protection(error) }
            // It was removed, altered, or is under a key that was forgotten: a part of it would be worth nothing.
            return try startOver()
        }
        checks = nil
        known = PartialRecord(resource: found.resource, parts: [open!.record], isWhole: found.isWhole)
        try noteKnown()
        try mapping { () throws(DataProtectionError) in try name.removeAll(but: [first.number]) }
    }

    /// A `complete` file cannot be begun while locked.
    private func requireKey() throws {
        if request.partialClass == .complete, !store.keybag.isProtectedDataAvailable { throw Locked() }
    }

    /// Gives up everything that has come.
    func startOver() throws {
        discard()
        try store.forgetParts(of: id)
        try mapping { () throws(DataProtectionError) in try name.removeAll() }
        (known, checks) = (nil, nil)
    }

    private func discard() {
        buffer.removeAll()
        open?.file.discard()
        (open, inMemory) = (nil, nil)
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
    func goOn() throws {
        known?.isWhole = false
        guard open == nil, let last = known?.parts.last else { return }
        let part = SegmentRecord(number: last.number + 1, start: last.end, synced: 0)
        isFresh = false
        known?.parts.append(part)
        // Noted first: a file that nothing tells of would stay for ever.
        try noteKnown(isLasting: false)
        try create(part)
    }

    /// More is known of the resource that the bytes are of.
    func note(_ resource: ResourceIdentity) throws {
        known?.resource = resource
        try noteKnown()
    }

    /// Every byte is there.
    func noteWhole(isLasting: Bool) throws {
        known?.isWhole = true
        known?.resource.length = position
        try noteKnown(isLasting: isLasting)
    }

    private func noteKnown(isLasting: Bool = true) throws {
        if let known { try store.note(known, of: id, isLasting: isLasting) }
    }

    /// The next byte is the first one of `resource`; whatever was there is removed.
    func restart(as resource: ResourceIdentity) throws {
        discard()
        // What is in memory alone could not be sealed as class A after a lock that nobody has announced.
        if isFresh, request.partialClass == .completeUnlessOpen, let length = resource.length, length <= memory {
            (inMemory, lastSync) = (resource, Clock.monotonic())
            buffer.reserve(Int(length))
        } else {
            try beginAnew(resource)
        }
    }

    /// What is in memory goes the way of larger ones: into a file that a process which goes on later finds.
    private func spill() throws {
        guard let resource = inMemory else { return }
        inMemory = nil
        try beginAnew(resource)
    }

    private func beginAnew(_ resource: ResourceIdentity) throws {
        let part = SegmentRecord(number: (known?.parts.last?.number ?? -1) + 1, start: 0, synced: 0)
        let next = PartialRecord(resource: resource, parts: [part])
        // Noted first: a file that nothing tells of would stay for ever.
        try store.note(next, of: id, isLasting: false)
        let hasOthers = !isFresh
        // From here on there may be a file, also where an error says that it was not made.
        (known, isFresh) = (next, false)
        try create(part)
        if hasOthers { try mapping { () throws(DataProtectionError) in try name.removeAll(but: [part.number]) } }
        checks = try RunningChecks(request.checks, keys: keys)
    }

    private func create(_ record: SegmentRecord) throws {
        let path = name.path(record.number)
        do throws(DataProtectionError) {
            // Made by a process that was killed before it could write to it.
            try AtomicReplace.remove(path)
            let file = try ProtectedFile.createLarge(path, as: request.partialClass, keybag: store.keybag)
            var record = record
            record.fileID = try file.openedID()
            (open, ahead, aheadOf) = ((file, record, 0), FlushAhead(), 0)
        } catch .locked {
            throw Locked()
        } catch {
            throw DownloadError.protection(error)
        }
    }

    /// Takes the next bytes. They are in the file, or will be when ``sync()`` has returned.
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
        if isInMemory, Clock.monotonic() - lastSync >= Self.syncNanoseconds { return try sync() }
        guard let open else { return }
        if open.written - aheadOf >= Self.aheadBytes, ahead.begin(open.file) { aheadOf = open.written }
        let isMuch = open.written - open.record.synced >= Self.syncBytes
        // In between, the disk is busy enough.
        let isTime = Clock.monotonic() - lastSync >= Self.syncNanoseconds && !ahead.isRunning
        if isMuch || isTime { try sync() }
    }

    private func flushBuffer() throws {
        // Also where it cannot be written: what is not noted may be of another version than what the list knows.
        defer { buffer.removeAll() }
        try spill()
        if buffer.count > 0 { try write(buffer.bytes) }
    }

    private func write(_ bytes: UnsafeRawBufferPointer) throws {
        guard let current = open else { return }
        do throws(DataProtectionError) {
            try current.file.write(bytes, at: Int64(current.written))
        } catch .locked {
            throw Locked()
        } catch {
            throw DownloadError.protection(error)
        }
        open!.written += UInt64(bytes.count)
        try checks?.update(bytes)
    }

    /// Makes everything that has come last, and only then notes it.
    ///
    /// - Parameter isLasting: false where a change of the list that lasts follows at once.
    func sync(isLasting: Bool = true) throws {
        try flushBuffer()
        // Who waits for the next try, or for a slow server, needs no room for what may come.
        buffer.release()
        lastSync = Clock.monotonic()
        guard let current = open, current.written > current.record.synced else { return }
        try mapping { () throws(DataProtectionError) in
            try ahead.finish()
            try current.file.sync()
        }
        open!.record.synced = current.written
        if let parts = known?.parts { known?.parts = parts.dropLast() + [open!.record] }
        try noteKnown(isLasting: isLasting)
        lastSync = Clock.monotonic()
    }

    // MARK: the end

    /// Closes what is open. What was written is flushed and noted, or given up where that fails.
    func close() throws {
        guard open != nil || isInMemory else { return buffer.removeAll() }
        // Without a key what is in memory cannot be sealed, but what is sealed can be flushed.
        try? flushBuffer()
        let synced = Result { try sync() }
        guard let current = open else { return }
        (open, checks) = (nil, nil)
        guard case .success = synced else {
            // A commit could succeed behind a flush whose error somebody else was told of.
            return current.file.discard()
        }
        try mapping { () throws(DataProtectionError) in try current.file.close() }
    }

    /// Removes everything that has come.
    func remove() throws(DownloadError) {
        discard()
        (checks, known) = (nil, nil)
        // A name that was never made need not be looked for.
        if !isFresh { try name.removeRest() }
    }

    private func mapping<R>(_ body: () throws(DataProtectionError) -> R) throws(DownloadError) -> R {
        do throws(DataProtectionError) { return try body() } catch { throw .protection(error) }
    }

    func mappingLocked<R>(_ body: () throws(DataProtectionError) -> R) throws -> R {
        do throws(DataProtectionError) { return try body() } catch .locked { throw Locked() } catch {
            throw DownloadError.protection(error)
        }
    }
}
