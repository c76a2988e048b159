import DataProtection

/// The end of a download: its checks, and what is published.
extension PartialFile {
    /// Whether ``check()`` may take long.
    var readsAgain: Bool {
        guard case .open(let part) = storage, !request.checks.isEmpty else { return false }
        return part.checks?.length != part.written
    }

    /// What is not as it was to be; nil: all is well. Reads everything again where it has not all come by.
    ///
    /// - Throws: ``Locked`` where it is not in one file that is open; ``Vanished``; *damaged* where less is there than the list knows of.
    func check() throws -> DownloadFailure? {
        if isInMemory {
            let checks = try RunningChecks(request.checks, keys: keys)
            try checks.update(buffer.bytes)
            return try checks.failure()
        }
        try sync()
        let part: OpenPart
        switch storage {
        case .open(let last) where last.isOnly: part = last
        case .open, .closed: throw Locked()
        // The file was removed, or an earlier try published it and then failed.
        case .unread, .nothing, .inMemory: throw Vanished()
        }
        guard isWhole else { throw lost(part.file.path) }
        defer { part.checks = nil }
        if let checks = part.checks, checks.length == part.written { return try checks.failure() }
        let again = try RunningChecks(request.checks, keys: keys)
        if !again.isEmpty { try read(part.file, into: again) } else { again.skip(part.written) }
        return try again.failure()
    }

    private func lost(_ path: FilePath) -> DownloadError {
        .protection(.damaged(path, .contentRecord, reason: "less is there than the list knows of", offset: nil))
    }

    private func read(_ file: ProtectedFile, into checks: RunningChecks) throws {
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: WriteBuffer.capacity, alignment: 16)
        defer { piece.deallocate() }
        while true {
            if isStopped.load(ordering: .relaxed) { throw CancellationError() }
            let count = try mappingLocked { () throws(DataProtectionError) in
                try file.read(into: piece, at: Int64(checks.length))
            }
            if count == 0 { return }
            try checks.update(UnsafeRawBufferPointer(rebasing: piece[..<count]))
        }
    }

    /// Writes what is in memory, in its final class and flushed, but without a name: nothing else is on disk before or beside it.
    ///
    /// - Returns: nil if that cannot be done now, and what is there goes the way of larger ones.
    func writeWhole() throws(DownloadError) -> (file: WholeFile, published: PublishedFile)? {
        guard isInMemory else { return nil }
        do throws(DataProtectionError) {
            let target = try request.target.stored()
            guard request.replacesExisting || !OwnDirectory.exists(target), !replacesStronger(target) else {
                return nil
            }
            let file = try WholeFile(
                buffer.bytes, for: target, as: request.protectionClass, keybag: store.keybag)
            return (file, published(file.fileID, temporary: []))
        } catch .because(KeybagFailure.locked) {
            return nil
        } catch .because(KeybagFailure.keyLost) {
            // Rotated and forgotten while it was written.
            return nil
        } catch {
            throw .protection(error)
        }
    }

    /// Whether the file that is replaced has a stronger class, which the new one gets when it has the name.
    private func replacesStronger(_ target: FilePath) -> Bool {
        guard let old = try? LowerFile.forHeads(of: target),
            let least = InheritedClass.least(inPlaceOf: old, store.keybag)
        else { return false }
        return least > request.protectionClass
    }

    /// The finished file as it is to be published. Closes it.
    func finish() throws -> PublishedFile {
        guard case .open(let part) = storage, part.isOnly else { throw Locked() }
        let path = name.path(part.number)
        try close()
        // Its name may have gone, or be another file's by now.
        let fileID = try mapping { () throws(DataProtectionError) in try ProtectedFile.fileID(at: path.stored()) }
        guard fileID == part.fileID else { throw lost(path) }
        return published(fileID, temporary: path.bytes)
    }

    private func published(_ fileID: [UInt8], temporary: [UInt8]) -> PublishedFile {
        PublishedFile(
            fileID: fileID, temporary: temporary, length: position,
            isTamperProof: request.checks.contains(where: \.isTamperProof))
    }
}
