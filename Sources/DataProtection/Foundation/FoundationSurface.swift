import DurableFiles
public import FoundationEssentials
import Glibc
import Keybags
import ProtectedFiles
import ProtectedTrees
import ProtectionFormat
public import ProtectionKeys
import SystemPackage

/// What to do with a file that is not protected.
public enum PlaintextPolicy: Sendable, Hashable {
    /// Throw `notProtected`.
    case refuse
    /// Read it.
    case read
    /// Protect it in place, then read it.
    case upgrade(to: ProtectionClass)
}

extension Data {
    /// Reads a protected file.
    ///
    /// - Throws: `CocoaError` 257 (`fileReadNoPermission`) while locked, as on iOS, with the ``DataProtectionError`` as
    ///   its underlying error; other Cocoa codes for other failures, likewise.
    public init(
        contentsOf url: URL, protectedBy keybag: Keybag, ifPlaintext policy: PlaintextPolicy = .refuse
    ) throws {
        do throws(DataProtectionError) {
            self = try Data.read(try url.filePath(), keybag, policy)
        } catch {
            throw error.cocoaError(for: url, isWriting: false)
        }
    }

    /// Writes a protected file.
    ///
    /// The class is the one in `options` (`.completeFileProtection` …), else that of the file that is replaced, else the
    /// directory's default, the program's, the user's, `completeUntilFirstUserAuthentication`. Without `.atomic` an existing
    /// protected file is opened and overwritten in one commit, which needs its key; a new one appears whole in any case.
    /// A stronger class is set before the new content is written, a weaker one afterwards: if the write fails, the old content is
    /// not in a weaker class than before.
    /// - Parameter raiseTo: the class that the file gets when it is written, or at the next unlock if it is locked then; the
    ///   file appears as a whole. `none`, the weakest class, raises nothing.
    /// - Throws: `CocoaError` 513 (`fileWriteNoPermission`) while locked, 3328 (`featureUnsupported`) for a class in `options`
    ///   that there is not, with the ``DataProtectionError`` underneath.
    public func write(
        to url: URL, options: Data.WritingOptions = [], protectedBy keybag: Keybag, raiseTo: ProtectionClass = .none
    ) throws {
        do throws(DataProtectionError) {
            try write(try url.filePath(), options, keybag, raiseTo)
        } catch {
            throw error.cocoaError(for: url, isWriting: true)
        }
    }

    private static func read(
        _ path: FilePath, _ keybag: Keybag, _ policy: PlaintextPolicy
    ) throws(DataProtectionError) -> Data {
        do throws(DataProtectionError) {
            return try readProtected(path, keybag)
        } catch .notProtected {
            switch policy {
            case .refuse: throw .notProtected(path)
            case .read: return try readPlaintext(path)
            case .upgrade(let protectionClass):
                try keybag.protect(path, as: protectionClass)
                return try read(path, keybag, .refuse)
            }
        }
    }

    private static func readProtected(_ path: FilePath, _ keybag: Keybag) throws(DataProtectionError) -> Data {
        let lower = try LowerFile(regular: path, flags: O_RDONLY)
        // A file is longer than its plaintext, unless it has holes.
        let length = try lower.length()
        guard length < 1 << 20 else { return try ProtectedFile.reading(lower, keybag: keybag).read(Int.max, at: 0) }
        let buffer = WipedBuffer(count: Int(length) + 1)
        let (file, count) = try ProtectedFile.reading(lower, into: buffer.prefix(buffer.count), keybag: keybag)
        guard let count, count < buffer.count else { return try file.read(Int.max, at: 0) }
        return buffer.withBytes { Data($0.prefix(count)) }
    }

    private static func readPlaintext(_ path: FilePath) throws(DataProtectionError) -> Data {
        let file = try LowerFile(path, flags: O_RDONLY | O_NONBLOCK)
        try file.requireRegular()
        return Data(try file.bytes(at: 0, count: Int(try file.length())))
    }

    private func write(
        _ path: FilePath, _ options: WritingOptions, _ keybag: Keybag, _ raiseTo: ProtectionClass
    ) throws(DataProtectionError) {
        let explicit = try options.protectionClass(for: path)
        let isNewOnly = options.contains(.withoutOverwriting)
        if raiseTo == .none, !options.contains(.atomic), !isNewOnly, try overwrite(path, explicit, keybag) { return }
        try lend { bytes throws(DataProtectionError) in
            try ProtectedFileWriter.write(
                bytes, to: path, as: explicit, promising: PromisedClass(orNothing: raiseTo), keybag: keybag,
                replacing: !isNewOnly)
        }
    }

    /// Overwrites an existing protected file in one commit; false if there is none, or too much for one.
    private func overwrite(
        _ path: FilePath, _ explicit: ProtectionClass?, _ keybag: Keybag
    ) throws(DataProtectionError) -> Bool {
        let file: ProtectedFile
        do throws(DataProtectionError) {
            file = try ProtectedFile.open(path, .readWrite, keybag: keybag)
        } catch .notProtected {
            return false
        } catch {
            if case .system(_, _, .noSuchFileOrDirectory) = error { return false }
            throw error
        }
        // More than fits into one commit appears whole by way of a new file.
        let limit = 4 << 20
        guard count <= limit, file.lastSize <= limit else { return false }
        do throws(DataProtectionError) {
            let own = try file.openedClass()
            // New bytes are never in the weaker class, and old bytes keep their class until they are gone.
            if let explicit, explicit > own {
                try keybag.setProtection(explicit, of: file.lower, allowsWeaker: false)
            }
            var isReplaced = false
            try lend { bytes throws(DataProtectionError) in
                isReplaced = try file.replaceContents(by: bytes, ofAtMost: UInt64(limit))
            }
            guard isReplaced else {
                try file.close()
                return false
            }
            if let explicit, explicit <= own {
                try file.sync()
                try keybag.setProtection(explicit, of: file.lower, isOpened: true)
            }
        } catch {
            file.discard()
            throw error
        }
        try file.close()
        return true
    }

    /// Lends the bytes to a body whose errors are ours.
    func lend(
        _ body: (UnsafeRawBufferPointer) throws(DataProtectionError) -> Void
    ) throws(DataProtectionError) {
        let result: Result<Void, DataProtectionError> = withUnsafeBytes { bytes in
            do throws(DataProtectionError) { return .success(try body(bytes)) } catch { return .failure(error) }
        }
        try result.get()
    }
}

extension Data.WritingOptions {
    /// The class that the options name, if any.
    ///
    /// - Throws: `unknownClass` for one that we do not have: the default could be weaker.
    func protectionClass(for path: FilePath) throws(DataProtectionError) -> ProtectionClass? {
        switch intersection(.fileProtectionMask) {
        case []: return nil
        case .completeFileProtection: return .complete
        case .completeFileProtectionUnlessOpen: return .completeUnlessOpen
        case .completeFileProtectionUntilFirstUserAuthentication: return .completeUntilFirstUserAuthentication
        case .noFileProtection: return ProtectionClass.none
        case let other:
            throw .because(
                FileFailure.unknownClass(path, name: "writing option 0x\(String(other.rawValue, radix: 16))"))
        }
    }
}

extension Keybag {
    /// Gives a file, or the default of a directory, a class.
    ///
    /// - Throws: `CocoaError` 513 while locked, with the ``DataProtectionError`` underneath.
    public func setProtection(_ protectionClass: ProtectionClass, ofItemAt url: URL) throws {
        do throws(DataProtectionError) {
            try setProtection(protectionClass, ofItemAt: try url.filePath())
        } catch {
            throw error.cocoaError(for: url, isWriting: true)
        }
    }
}
