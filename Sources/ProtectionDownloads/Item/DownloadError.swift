public import DataProtection
import SharedDatabase
public import TrustedHTTP

/// Why a download, or the list of them, does not go on.
@nonexhaustive
public enum DownloadError: Error, Sendable {
    // MARK: what is asked for

    /// It makes no sense; nothing was added.
    case invalidRequest(reason: String)
    /// Something has that name, and was not to be replaced.
    case targetExists(FilePath)
    /// Another download of the list, which is not over, is to get that name, and nothing was to be replaced.
    case targetInList(FilePath, DownloadID)
    /// There is no directory to write to.
    case noDirectory(FilePath)
    /// Nothing of that id is in the list.
    case unknownDownload(DownloadID)
    /// It is over, or has not failed: there is nothing to pause, or to resume.
    case wrongState(DownloadID, DownloadState)

    // MARK: what came of it

    /// It has failed for good; ``DownloadFailure/kind`` says in which way.
    case failed(DownloadFailure)
    /// Somebody cancelled it. Nothing of it is left.
    case cancelled(DownloadID)

    // MARK: integrity keys

    /// No key of that id was ever there.
    case unknownIntegrityKey(id: String)
    /// The key of that id is not accepted any more.
    case retiredIntegrityKey(id: String)
    /// Shorter than 32 bytes: it is neither padded nor used.
    case weakIntegrityKey(id: String, bytes: Int)
    /// A key of that id is there, and it is another one.
    case integrityKeyExists(id: String)

    // MARK: credentials

    /// The file of a client's certificate and key cannot be used.
    case unusableIdentity(ClientIdentityError)

    // MARK: the list

    /// The keys of the list are not here before the first unlock after a boot.
    case beforeFirstUnlock(FilePath)
    /// Another process runs this list.
    case alreadyRunning(FilePath)
    /// The database, or a value in it, was altered or damaged. Moved away with its companions, a new list begins.
    case storeDamaged(FilePath, reason: String)
    /// There are downloads in the database and the file with their key has gone. Put it back from a backup, or move both away.
    case storeKeyLost(FilePath)
    /// Written by a newer version.
    case storeNewer(FilePath)
    /// The database cannot be read or written; `code`: of SQLite.
    case store(FilePath, code: Int32, reason: String)
    /// What a file or the keybag says.
    case protection(DataProtectionError)
    /// libcrypto failed on input that cannot make it fail.
    case cryptography(KeyError)
}

/// Runs what fails as files and keybags do.
func protected<R: ~Copyable>(_ body: () throws(DataProtectionError) -> R) throws(DownloadError) -> R {
    do throws(DataProtectionError) { return try body() } catch { throw .protection(error) }
}

/// Runs a key operation whose failure is nobody's input.
func withKeys<R: ~Copyable>(_ body: () throws(KeyError) -> R) throws(DownloadError) -> R {
    do throws(KeyError) { return try body() } catch { throw .cryptography(error) }
}

/// Runs what fails as databases do.
func shared<R>(_ body: () throws(SharedDatabaseError) -> R) throws(DownloadError) -> R {
    do throws(SharedDatabaseError) { return try body() } catch { throw DownloadError(error) }
}

extension DownloadError {
    init(_ error: SharedDatabaseError) {
        switch error {
        case .damaged(let path, let reason): self = .storeDamaged(path, reason: reason)
        case .newer(let path): self = .storeNewer(path)
        case .failed(let path, let code, let reason): self = .store(path, code: code, reason: reason)
        case .system(let path, let operation, let errno):
            self = .protection(.system(path, operation: operation, errno))
        }
    }
}
