import ProtectionKeys
import TrustedHTTP

/// What the user has excepted from trust is authenticated under the key of the list. FORMAT.md §2.14.
///
/// For downloads a stronger key would gain nothing: requests, which bring exceptions of their own, are sealed under this one. For uploads of files
/// that are shut while locked these exceptions do not count: ``TryTerms``.
extension DownloadStore: TrustExceptionSeal {
    private var exceptionsPath: FilePath { directory.appending("trust-exceptions") }

    /// Hosts and certificates, in clear.
    var trustExceptions: TrustExceptionStore { TrustExceptionStore(exceptionsPath, seal: self) }

    func seal(_ message: [UInt8]) throws(TrustExceptionStoreError) -> [UInt8] {
        do throws(DownloadError) {
            return try seal(try digest(message), .trustExceptions, row: [])
        } catch {
            throw unusableKey(error)
        }
    }

    func isSeal(_ sealed: [UInt8], of message: [UInt8]) throws(TrustExceptionStoreError) -> Bool {
        do throws(DownloadError) {
            return try open(sealed, .trustExceptions, row: []) == digest(message)
        } catch .storeDamaged {
            return false
        } catch {
            throw unusableKey(error)
        }
    }

    private func digest(_ message: [UInt8]) throws(DownloadError) -> [UInt8] {
        try withKeys { () throws(KeyError) in try Digest.sha256(message) }
    }

    private func unusableKey(_ error: DownloadError) -> TrustExceptionStoreError {
        guard case .beforeFirstUnlock = error else { return .keyUnavailable(path: exceptionsPath) }
        return .locked(path: exceptionsPath)
    }
}
