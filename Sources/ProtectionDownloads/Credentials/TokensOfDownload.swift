import ProtectionKeys
import Synchronization
import TrustedHTTP

/// The bearer tokens of one try: those that are kept, then those of the application's provider.
///
/// A kept one that was refused is not sent again, as no credential is; what the provider gives is its own affair.
final class TokensOfDownload: BearerTokens {
    private let store: DownloadStore
    private let id: DownloadID
    private let provider: (any BearerTokens)?
    /// Those that the request lists: a token goes out unasked, so the provider's go to no server that only the list's entries name.
    private let spaces: [ProtectionSpace]
    /// What was sent last, if it was a kept one.
    private let sent = Mutex<(Credential, ProtectionSpace)?>(nil)

    init(_ store: DownloadStore, _ id: DownloadID, _ provider: (any BearerTokens)?, for spaces: [ProtectionSpace]) {
        (self.store, self.id, self.provider, self.spaces) = (store, id, provider, spaces)
    }

    func token(for space: ProtectionSpace, rejected: Bool) async throws -> CredentialSecret? {
        // Kept by server: the realm is known only after a refusal.
        let place = ProtectionSpace(space.kind, host: space.host, port: space.port, method: .bearer)
        let isOurs = sent.withLock { $0 != nil }
        if rejected { try await noteRefused() }
        let (own, kept) = try store.fitting(place, for: id)
        var broken: DownloadError?
        for record in own + kept where record.listed.kind == .token {
            guard let credential = try store.openIfSound(record, &broken), case .token(let token) = credential.content,
                try await !StoredFailures(store: store).contains(credential, in: place)
            else { continue }
            sent.withLock { $0 = (credential, place) }
            return token
        }
        let isListed = spaces.contains { entry in
            ProtectionSpace(entry.kind, host: entry.host, port: entry.port, method: entry.method).matches(place)
        }
        if isListed, let token = try await provider?.token(for: space, rejected: rejected && !isOurs) { return token }
        if let broken { throw broken }
        return nil
    }

    /// What was sent last was not accepted.
    func noteRefused() async throws {
        guard let (credential, place) = sent.withLock({ $0.take() }) else { return }
        try await StoredFailures(store: store).insert(credential, in: place)
    }
}
