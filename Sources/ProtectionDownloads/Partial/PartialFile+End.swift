import DataProtection

/// The end of a download: its checks, and what is published.
extension PartialFile {
    /// Whether ``check()`` may take long.
    var readsAgain: Bool { !isInMemory && !request.checks.isEmpty && checks?.length != open?.written }

    /// What is not as it was to be; nil: all is well. Reads everything again where it has not all come by.
    func check() throws -> DownloadFailure? {
        if isInMemory {
            let checks = try RunningChecks(request.checks, keys: keys)
            try checks.update(buffer.bytes)
            return try checks.failure()
        }
        try sync()
        guard let open, open.record.start == 0 else { throw Locked() }
        if checks?.length != open.written {
            let again = try RunningChecks(request.checks, keys: keys)
            if !again.isEmpty { try read(open.file, into: again) } else { again.skip(open.written) }
            checks = again
        }
        defer { checks = nil }
        return try checks?.failure()
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
        guard isInMemory, request.replacesExisting || !OwnDirectory.exists(request.target) else { return nil }
        do throws(DataProtectionError) {
            let file = try WholeFile(
                buffer.bytes, for: request.target, as: request.protectionClass, keybag: store.keybag)
            return (file, published(file.fileID, temporary: []))
        } catch .locked {
            return nil
        } catch .keyLost {
            // Rotated and forgotten while it was written.
            return nil
        } catch {
            throw .protection(error)
        }
    }

    /// The finished file as it is to be published. Closes it.
    func finish() throws -> PublishedFile {
        guard let open, open.record.start == 0, let fileID = open.record.fileID else { throw Locked() }
        let path = name.path(open.record.number)
        let length = open.written
        try close()
        return published(fileID, temporary: path.bytes, length: length)
    }

    private func published(_ fileID: [UInt8], temporary: [UInt8], length: UInt64? = nil) -> PublishedFile {
        PublishedFile(
            fileID: fileID, temporary: temporary, length: length ?? position,
            isTamperProof: request.checks.contains(where: \.isTamperProof))
    }
}
