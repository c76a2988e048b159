import DataProtection

/// On which terms a try is made: who is believed, and who may be told who we are. Read from the list each time: it may have changed
/// while a download waited for that.
struct TryTerms: Sendable {
    let store: DownloadStore
    let connections: DownloadConnections
    let session: SessionCredentials

    func tokens(of id: DownloadID, _ request: DownloadRequest) -> TokensOfDownload {
        TokensOfDownload(store, id, connections.tokens, for: request.spaces)
    }

    /// What is asked of the server, without what the try itself adds. Reads the list.
    ///
    /// - Parameter isSecret: whether a file is sent that is shut while locked. While locked anybody with the user's id can add exceptions to the
    ///   list, so they do not count then; those of the request do, which are as it was added.
    func http(
        for request: DownloadRequest, _ id: DownloadID, _ tokens: TokensOfDownload, isSecret: Bool = false
    ) throws -> HTTPRequest {
        let credentials = CredentialsOfDownload(
            store: store, id: id, session: session, application: connections.credentials)
        let listed = try store.credentials(of: id).map(\.listed.space)
        let authentication = HTTPAuthentication(
            request.spaces + listed, credentials: credentials, handler: connections.handler, tokens: tokens,
            failures: StoredFailures(store: store))
        let exceptions = isSecret ? [] : try trustExceptions()
        return connections.request(request, exceptions: exceptions, authentication: authentication)
    }

    /// Remembers a token that was not accepted, as other credentials are.
    func note(_ error: HTTPError, _ tokens: TokensOfDownload) async throws {
        guard case .credentialRefused(let space) = error, space.method == .bearer else { return }
        try await tokens.noteRefused()
    }

    /// Exceptions that are not authenticated are none. A download that needs none of them goes on.
    private func trustExceptions() throws -> Set<TrustException> {
        do throws(TrustExceptionStoreError) { return try store.trustExceptions.exceptions() } catch .unauthenticated {
            return []
        } catch {
            throw DownloadError.failed(DownloadFailure(.untrusted, "\(error)"))
        }
    }
}
