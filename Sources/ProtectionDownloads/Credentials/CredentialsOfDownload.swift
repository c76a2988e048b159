import ProtectionKeys
import TrustedHTTP

/// What one download may answer challenges with: what it was given, then what this process was told, what the application has,
/// and what the list keeps for all. Of those that fit, one that was not refused yet.
struct CredentialsOfDownload: CredentialStore {
    let store: DownloadStore
    let id: DownloadID
    let session: SessionCredentials
    let application: (any CredentialStore)?
    var failures: StoredFailures { StoredFailures(store: store) }

    func credential(for space: ProtectionSpace) async throws -> Credential? {
        // One that was refused is worth saying so; so is one that does not open, if no other one does.
        var refused: Credential?
        var broken: DownloadError?
        let (own, kept) = try store.fitting(space, for: id)
        for source in [.kept(own), .session, .application, .kept(kept)] as [Source] {
            for credential in try await credentials(of: source, for: space, &broken) where credential.fits(space.method)
            {
                guard try await failures.contains(credential, in: space) else { return credential }
                refused = refused ?? credential
            }
        }
        if refused == nil, let broken { throw broken }
        return refused
    }

    private enum Source {
        case kept([CredentialRecord])
        case session, application
    }

    private func credentials(
        of source: Source, for space: ProtectionSpace, _ broken: inout DownloadError?
    ) async throws -> [Credential] {
        switch source {
        case .kept(let records): return try records.compactMap { try store.openIfSound($0, &broken) }
        case .session: return [await session.credential(for: space)].compactMap { $0 }
        case .application: return [try await application?.credential(for: space)].compactMap { $0 }
        }
    }

    /// `permanent` means the application's store, if there is one; the list cannot keep a key that has no file.
    func keep(_ credential: Credential, for space: ProtectionSpace) async throws {
        await session.keep(credential, for: space)
        guard credential.persistence == .permanent else { return }
        if let application { return try await application.keep(credential, for: space) }
        switch credential.content {
        case .password(let user, let password):
            try store.add(DownloadCredential(.password(user: user, password), for: space))
        case .token(let token): try store.add(DownloadCredential(.token(token), for: space))
        case .identity: break
        }
    }
}

extension DownloadStore {
    /// Credentials for a space that was met: those of the download, and those for all.
    func fitting(
        _ space: ProtectionSpace, for id: DownloadID
    ) throws(DownloadError) -> (own: [CredentialRecord], kept: [CredentialRecord]) {
        let all = try credentials(of: id).filter { $0.listed.space.matches(space) }
        return (all.filter { $0.download != nil }, all.filter { $0.download == nil })
    }
}
