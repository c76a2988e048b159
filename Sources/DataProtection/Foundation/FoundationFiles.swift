import DurableFiles
public import FoundationEssentials
import Keybags
import ProtectedFiles
import ProtectedTrees
import ProtectionKeys
import SystemPackage

extension FileManager {
    /// Creates a protected file, or replaces one, as a whole.
    ///
    /// - Parameters:
    ///   - data: nil: the file is empty.
    ///   - attributes: `.protectionKey` is the class; without it the file gets that of the file which it replaces, else the
    ///     directory's default, the program's, the user's, `completeUntilFirstUserAuthentication`. The others are set when
    ///     the file has its name.
    /// - Returns: true, so that what iOS code does with the result still compiles. Foundation's false says nothing of why:
    ///   this throws instead.
    /// - Throws: `CocoaError` 513 while locked, 3328 for a class that there is not; nothing is created or replaced then.
    @discardableResult
    public func createFile(
        atPath path: String, contents data: Data?, attributes: [FileAttributeKey: Any]? = nil,
        protectedBy keybag: Keybag
    ) throws -> Bool {
        let protectionClass = try attributes?.protectionClass(of: path)
        try inFoundationsWords(path, isWriting: true) { path throws(DataProtectionError) in
            try (data ?? Data()).lend { bytes throws(DataProtectionError) in
                try ProtectedFileWriter.write(
                    bytes, to: path, as: protectionClass, promising: nil, keybag: keybag, replacing: true)
            }
        }
        if let others = attributes?.withoutProtection, !others.isEmpty {
            try setAttributes(others, ofItemAtPath: path)
        }
        return true
    }

    /// The plaintext of a protected file; nil only if there is no such file.
    ///
    /// Foundation's nil may also mean that the file cannot be read: this throws then.
    /// - Throws: `CocoaError` 257 while locked, 259 for plaintext and for a damaged file, with the ``DataProtectionError``
    ///   underneath.
    public func contents(atPath path: String, protectedBy keybag: Keybag) throws -> Data? {
        try inFoundationsWords(path, isWriting: false) { path throws(DataProtectionError) in
            do throws(DataProtectionError) {
                let file = try ProtectedFile.open(path, keybag: keybag)
                return try file.read(Int.max, at: 0)
            } catch .system(_, _, .noSuchFileOrDirectory) {
                return nil
            }
        }
    }

    /// Copies a file, a link, or a directory with everything below it. The copies are protected, under keys of their own.
    ///
    /// A protected file is opened and its copy has its class. The copy of a plaintext file is a new file of the default
    /// class there. Links are copied as links. Modes, times and `user.` attributes go along. The copy appears whole or not
    /// at all; after a kill, a hidden `.NAME.protectfs-unfinished-N` may stay. The next such copy removes it, unless others can rename
    /// files in the outer directory.
    /// - Throws: `CocoaError` 257 while a source is locked, 513 while a key for a copy is, 516 if there is something at
    ///   `target`; `busy` underneath while somebody is writing to a source.
    public func copyItem(atPath source: String, toPath target: String, protectedBy keybag: Keybag) throws {
        // Not by way of URLs, for which an empty path is the working directory.
        try copy(
            FilePath(source), to: FilePath(target), named: (URL(filePath: source), URL(filePath: target)), keybag)
    }

    /// Copies as ``copyItem(atPath:toPath:protectedBy:)``.
    public func copyItem(at source: URL, to target: URL, protectedBy keybag: Keybag) throws {
        let paths: (source: FilePath, target: FilePath)
        do throws(DataProtectionError) { paths = (try source.filePath(), try target.filePath()) } catch {
            throw error.cocoaError(for: source.isFileURL ? target : source, isWriting: source.isFileURL)
        }
        try copy(paths.source, to: paths.target, named: (source, target), keybag)
    }

    private func copy(
        _ source: FilePath, to target: FilePath, named urls: (source: URL, target: URL), _ keybag: Keybag
    ) throws {
        do throws(DataProtectionError) { try ItemCopy(keybag: keybag).copy(source, to: target) } catch {
            let isReading = error.isAbout(source, not: target)
            throw error.cocoaError(for: isReading ? urls.source : urls.target, isWriting: !isReading)
        }
    }
}

extension DataProtectionError {
    /// Whether it was met at `source` or below it, while something was read there, and not at `target`, which may be inside.
    fileprivate func isAbout(_ source: FilePath, not target: FilePath) -> Bool {
        switch self {
        case .damaged(let path, _, _, _), .unsupported(let path, _), .busy(let path), .notRegularFile(let path),
            .system(let path, _, _), .because(KeybagFailure.locked(let path, _, _, _, _)),
            .because(KeybagFailure.keyLost(let path, _, _, _)), .because(FileFailure.foreignKeybag(let path, _)),
            .because(FileFailure.otherKey(let path, _, _)):
            return path.starts(with: source) && !path.starts(with: target)
        default: return false
        }
    }
}
