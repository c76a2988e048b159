public import ProtectionFormat
public import ProtectionKeys
public import SystemPackage

/// Why an operation failed: facts, with what a caller needs to act. All layers throw this one type.
///
/// Its own cases are what a file system, stored bytes and libcrypto can cause. What only a higher layer can find out is a failure of that layer,
/// under ``because(_:)``: `KeybagFailure`, `FileFailure` or `TreeFailure`.
///
///     switch error {
///     case .because(KeybagFailure.locked): …  // wait for an unlock
///     case .system(_, _, .noSpace): …
///     default: …
///     }
public enum DataProtectionError: Error, Sendable {
    /// What a higher layer found out: a `KeybagFailure`, `FileFailure` or `TreeFailure`.
    case because(any LayerFailure)

    // MARK: stored bytes

    /// Not one of our files. Its bytes are never given out as if they had been protected.
    case notProtected(FilePath)
    /// Stored bytes break the format; nothing of them is given out. `offset`: of the plaintext, in bytes, for chunks.
    case damaged(FilePath, FormatError.Layer, reason: String, offset: Int64?)
    /// Made by a newer version.
    case unsupported(FilePath, what: String)

    // MARK: files and directories

    /// Another handle is writing to the file, or it changed while it was being converted.
    case busy(FilePath)
    /// A directory, link, device or socket where a regular file is needed.
    case notRegularFile(FilePath)
    /// Other names lead to the same bytes; `count` includes this one.
    case hasHardLinks(FilePath, count: Int)
    /// There is something under that name already.
    case exists(FilePath)
    /// The directory or a file in it belongs to somebody else, or others may write to it.
    case keybagUnsafe(FilePath, reason: String)
    /// Another machine has used the store of secrets or list of downloads; the file notes which one.
    case usedElsewhere(FilePath)

    // MARK: the system

    /// The operating system refused; `operation` is the system call.
    case system(FilePath, operation: String, Errno)
    /// libcrypto failed on input that cannot make it fail.
    case cryptography(KeyError)
}

extension DataProtectionError {
    /// The POSIX error that says the same: ENOKEY for *locked*.
    public var errno: Errno {
        switch self {
        case .because(let failure): failure.errno
        case .notProtected, .damaged, .unsupported: .badMessage
        case .busy, .usedElsewhere: .resourceBusy
        case .exists: .fileExists
        case .notRegularFile, .hasHardLinks: .invalidArgument
        case .keybagUnsafe: .permissionDenied
        case .system(_, _, let errno): errno
        case .cryptography: .ioError
        }
    }
}

extension DataProtectionError: Hashable {
    public static func == (left: DataProtectionError, right: DataProtectionError) -> Bool { left.facts == right.facts }

    public func hash(into hasher: inout Hasher) { hasher.combine(facts) }

    /// The case, by a number, and what it carries. An `any LayerFailure` is not `Hashable`, so that the compiler cannot compare the cases.
    private var facts: [AnyHashable] {
        switch self {
        case .because(let failure): [0, AnyHashable(failure)]
        case .notProtected(let path): [1, path]
        case .damaged(let path, let layer, let reason, let offset): [2, path, layer, reason, AnyHashable(offset)]
        case .unsupported(let path, let what): [3, path, what]
        case .busy(let path): [4, path]
        case .exists(let path): [5, path]
        case .notRegularFile(let path): [6, path]
        case .hasHardLinks(let path, let count): [7, path, count]
        case .keybagUnsafe(let path, let reason): [8, path, reason]
        case .usedElsewhere(let path): [9, path]
        case .system(let path, let operation, let errno): [10, path, operation, errno]
        case .cryptography(let error): [11, error]
        }
    }
}

/// Runs a key operation whose failure is nobody's input.
package func withKeys<R: ~Copyable>(_ body: () throws(KeyError) -> R) throws(DataProtectionError) -> R {
    do throws(KeyError) { return try body() } catch { throw .cryptography(error) }
}

/// Runs a decoding of the bytes at `path`.
package func withFormat<R: ~Copyable>(
    _ path: FilePath, _ body: () throws(FormatError) -> R
) throws(DataProtectionError) -> R {
    do throws(FormatError) {
        return try body()
    } catch {
        switch error {
        case .notOurs: throw .notProtected(path)
        case .unsupported(let what): throw .unsupported(path, what: what)
        case .damaged(let layer, let reason): throw .damaged(path, layer, reason: reason, offset: nil)
        }
    }
}
