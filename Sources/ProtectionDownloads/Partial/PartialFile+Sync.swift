import DataProtection

/// What lasts of a download, and what the list is told of it: bytes are flushed first, and noted then.
extension PartialFile {
    /// Makes everything that has come last, and only then notes it.
    ///
    /// - Parameter isLasting: false where a change of the list that lasts follows at once.
    func sync(isLasting: Bool = true) throws {
        try flushBuffer()
        // A download that waits for its next try, or for a slow server, needs no room for more bytes.
        buffer.release()
        lastSync = Clock.monotonic()
        guard case .open(let part) = storage, part.unsynced > 0 else { return }
        try mapping { () throws(DataProtectionError) in try part.flush() }
        try store.note(part.record, of: name.id, isLasting: isLasting)
        lastSync = Clock.monotonic()
    }

    /// More is known of the resource that the bytes are of.
    func note(_ resource: ResourceIdentity) throws {
        try noteRecord(isLasting: true) {
            $0.resource = resource
        } open: {
            $0.resource = resource
        }
    }

    /// Every byte is there.
    func noteWhole(isLasting: Bool) throws {
        let length = position
        try noteRecord(isLasting: isLasting) {
            ($0.isWhole, $0.resource.length) = (true, length)
        } open: {
            ($0.isWhole, $0.resource.length) = (true, length)
        }
    }

    private func noteRecord(
        isLasting: Bool, closed: (inout PartialRecord) -> Void, open: (OpenPart) -> Void
    ) throws {
        let record: PartialRecord
        switch storage {
        case .unread, .nothing, .inMemory: throw Self.nothingIsThere
        case .closed(var changed):
            closed(&changed)
            storage = .closed(changed)
            record = changed
        case .open(let part):
            open(part)
            record = part.record
        }
        try store.note(record, of: name.id, isLasting: isLasting)
    }

    // MARK: the end

    /// Closes what is open. What was written is flushed and noted, or given up where that fails.
    func close() throws {
        switch storage {
        case .unread, .nothing, .closed: return buffer.removeAll()
        case .inMemory, .open: break
        }
        // Without a key what is in memory cannot be sealed, but what is sealed can be flushed.
        try? flushBuffer()
        let synced = Result { try sync() }
        guard case .open(let part) = storage else { return }
        storage = .closed(part.record)
        guard case .success = synced else {
            // A commit could succeed behind a flush whose error somebody else was told of.
            return part.file.discard()
        }
        try mapping { () throws(DataProtectionError) in try part.file.close() }
    }

    /// Removes everything that has come.
    func remove() throws(DownloadError) {
        discard()
        // A name that was never made need not be looked for.
        if case .nothing = storage { return }
        storage = .unread
        try name.removeRest()
    }

    func mapping<R>(_ body: () throws(DataProtectionError) -> R) throws(DownloadError) -> R {
        do throws(DataProtectionError) { return try body() } catch { throw .protection(error) }
    }

    func mappingLocked<R>(_ body: () throws(DataProtectionError) -> R) throws -> R {
        do throws(DataProtectionError) { return try body() } catch .because(KeybagFailure.locked) {
            throw Locked()
        } catch {
            throw DownloadError.protection(error)
        }
    }
}
