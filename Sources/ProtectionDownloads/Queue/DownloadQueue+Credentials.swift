public import TrustedHTTP

/// Credentials that the list keeps, for all that is asked of a server. Sealed, and never shown again.
extension DownloadQueue {
    /// Keeps one; it replaces one of the same kind for the same space. One that was refused before, given again, is tried again.
    ///
    /// - Throws: `beforeFirstUnlock`; what is wrong with the list.
    public func addCredential(_ credential: DownloadCredential) async throws(DownloadError) {
        try await changing { store throws(DownloadError) in try store.add(credential) }
    }

    /// Those that are kept for all, in the order in which they were added.
    public func credentials() async throws(DownloadError) -> [ListedCredential] {
        try await store.blocking { store throws(DownloadError) in try store.credentials().map(\.listed) }
    }

    /// How many of those that are kept for all were damaged or altered, so that ``credentials()`` leaves them out: what
    /// `SecretStore.deleteDamaged()` deletes.
    public func damagedCredentials() async throws(DownloadError) -> Int {
        try await store.blocking { store throws(DownloadError) in try store.damagedForAll() }
    }

    /// Removes those of a server.
    ///
    /// - Parameters:
    ///   - server: realm and method, where it has them, must be the entry's.
    ///   - name: only the user's, if it is given.
    /// - Returns: what was removed.
    public func removeCredentials(
        of server: ProtectionSpace, name: String? = nil
    ) async throws(DownloadError) -> [ListedCredential] {
        try await changing { store throws(DownloadError) in
            let records = try store.credentials().filter { record in
                server.matches(record.listed.space) && (name == nil || name == record.listed.name)
            }
            try store.remove(records)
            return records.map(\.listed)
        }
    }

    /// Gives a download these, in place of those that it was given; none: it has to do with those for all.
    ///
    /// - Throws: `unknownDownload`, `wrongState` if it is over.
    public func setCredentials(
        _ credentials: [DownloadCredential], of id: DownloadID
    ) async throws(DownloadError) {
        try await changing { store throws(DownloadError) in
            let state = try store.record(id).state
            guard state != .finished, state != .cancelled else { throw .wrongState(id, state) }
            try store.set(credentials, of: id)
        }
    }
}
