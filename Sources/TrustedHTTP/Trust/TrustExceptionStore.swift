import FoundationEssentials
import Glibc
public import SystemPackage

/// The exceptions that a user has made, in a file of JSON that only the user may write.
///
///     {"version":1,"exceptions":[{"certificate":"…64 hexadecimal digits…","host":"example.org","port":443,
///       "reasons":["expired"]}]}
///
/// Somebody who can write the file can redirect connections to another server. So a file that is not wholly understood, or that others may write, is
/// an error and never a list. A file that is not there holds no exceptions. A list of downloads also keeps a
/// seal in its file, `"seal":"…hexadecimal digits…"`, and believes no exceptions without it.
public struct TrustExceptionStore: Sendable {
    /// Where the file is, or will be.
    public let path: FilePath
    private let seal: (any TrustExceptionSeal)?

    /// - Parameter path: its directory must be there.
    public init(_ path: FilePath) { self.init(path, seal: nil) }

    /// - Parameter seal: what authenticates the exceptions; nil: nothing does.
    package init(_ path: FilePath, seal: (any TrustExceptionSeal)?) { (self.path, self.seal) = (path, seal) }

    /// All of them.
    ///
    /// - Throws: ``TrustExceptionStoreError``.
    public func exceptions() throws(TrustExceptionStoreError) -> Set<TrustException> {
        guard let bytes = try TrustExceptionFile(path).read() else { return [] }
        let contents: Contents
        do {
            contents = try JSONDecoder().decode(Contents.self, from: Data(bytes))
        } catch {
            throw .garbled(path: path, why: "not the JSON that is expected")
        }
        guard contents.version == 1 else { throw .garbled(path: path, why: "version \(contents.version)") }
        let exceptions = Set(contents.exceptions)
        guard let seal, !exceptions.isEmpty else { return exceptions }
        guard let sealed = contents.seal.flatMap(Hexadecimal.bytes),
            try seal.isSeal(sealed, of: Self.message(Self.sorted(exceptions)))
        else { throw .unauthenticated(path: path) }
        return exceptions
    }

    /// Adds one; its reasons are added to those of the same host, port and certificate.
    public func add(_ exception: TrustException) throws(TrustExceptionStoreError) {
        try change { exceptions in
            let same = exceptions.filter(exception.isOfSameCertificate)
            exceptions.subtract(same)
            exceptions.insert(same.reduce(exception) { $0.adding($1.reasons) })
        }
    }

    /// Removes those of a host and port; of one certificate only, if it is given.
    ///
    /// - Parameter certificateSHA256: 32 bytes.
    /// - Returns: what was removed.
    @discardableResult
    public func remove(
        host: String, port: Int, certificateSHA256: [UInt8]? = nil
    ) throws(TrustExceptionStoreError) -> Set<TrustException> {
        var removed: Set<TrustException> = []
        try change { exceptions in
            removed = exceptions.filter {
                $0.isFor(host, port) && (certificateSHA256 == nil || $0.certificateSHA256 == certificateSHA256)
            }
            exceptions.subtract(removed)
        }
        return removed
    }

    private struct Contents: Codable {
        let version: Int
        let exceptions: [TrustException]
        /// Hexadecimal. Older versions do not know it, and remove it when they write.
        let seal: String?
    }

    private static func sorted(_ exceptions: Set<TrustException>) -> [TrustException] {
        exceptions.sorted {
            ($0.host, $0.port, Hexadecimal.text($0.certificateSHA256))
                < ($1.host, $1.port, Hexadecimal.text($1.certificateSHA256))
        }
    }

    /// What is sealed: four lines for each exception. FORMAT.md §2.14.
    private static func message(_ exceptions: [TrustException]) -> [UInt8] {
        let lines = exceptions.flatMap { exception in
            [
                exception.host, String(exception.port), Hexadecimal.text(exception.certificateSHA256),
                exception.reasons.map(\.rawValue).sorted().joined(separator: ","),
            ]
        }
        return Array(lines.map { $0 + "\n" }.joined().utf8)
    }

    private func change(_ change: (inout Set<TrustException>) -> Void) throws(TrustExceptionStoreError) {
        let file = TrustExceptionFile(path)
        let lock = try file.lock()
        defer { close(lock) }
        var exceptions = try exceptions()
        let before = exceptions
        change(&exceptions)
        guard exceptions != before else { return }

        let sorted = Self.sorted(exceptions)
        let sealed = try seal?.seal(Self.message(sorted))
        let contents = Contents(version: 1, exceptions: sorted, seal: sealed.map(Hexadecimal.text))
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .prettyPrinted]
        do {
            try file.replace(by: Array(encoder.encode(contents)))
        } catch let error as TrustExceptionStoreError {
            throw error
        } catch {
            throw .garbled(path: path, why: "cannot be encoded")
        }
    }
}

/// What authenticates the exceptions in a file.
package protocol TrustExceptionSeal: Sendable {
    /// Seals what describes the exceptions.
    ///
    /// - Throws: `locked`, `keyUnavailable`.
    func seal(_ message: [UInt8]) throws(TrustExceptionStoreError) -> [UInt8]

    /// Whether `sealed` was made by ``seal(_:)`` of that message.
    ///
    /// - Throws: `locked`, `keyUnavailable`.
    func isSeal(_ sealed: [UInt8], of message: [UInt8]) throws(TrustExceptionStoreError) -> Bool
}

/// Why the file of exceptions cannot be used. Nothing is excepted then, and nothing was changed.
@nonexhaustive
public enum TrustExceptionStoreError: Error, Hashable {
    /// Not what this version of protectfs writes.
    case garbled(path: FilePath, why: String)
    /// Somebody else owns it, or may write it, or it is no regular file.
    case notOurs(path: FilePath)
    /// Its exceptions have no seal, or another one: an older version wrote it, or something else changed it.
    case unauthenticated(path: FilePath)
    /// The key of the seal is not here before the first unlock after a boot.
    case locked(path: FilePath)
    /// The key of the seal cannot be read.
    case keyUnavailable(path: FilePath)
    /// A system call failed.
    case system(path: FilePath, call: String, Errno)
}

extension TrustExceptionStoreError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .garbled(let path, let why): "cannot read the exceptions in \(path): \(why)"
        case .notOurs(let path): "the exceptions in \(path) could be another user's: its owner and mode allow that"
        case .unauthenticated(let path):
            "the exceptions in \(path) are not authenticated: an older version wrote them, or something else changed them"
        case .locked(let path): "the exceptions in \(path) cannot be authenticated before the first unlock"
        case .keyUnavailable(let path):
            "the exceptions in \(path) cannot be authenticated: the key of the list of downloads cannot be read"
        case .system(let path, let call, let errno): "\(path): \(call): \(errno)"
        }
    }
}
