import DurableFiles
public import FoundationEssentials
import Glibc
import Keybags
import ProtectedFiles
import ProtectedTrees
import ProtectionKeys
import SystemPackage

extension FileManager {
    /// Creates a directory with a default class: new files in it, and in directories below it that have none of their own, get that class.
    ///
    /// No key is needed, so this works in every lock state. A directory that was there before keeps the default that it has.
    /// - Parameters:
    ///   - path: where the directory will be.
    ///   - createIntermediates: whether missing directories above it are created too, in the same way, and whether a directory that is
    ///     there already is no error.
    ///   - attributes: `.protectionKey` is the class, as a `FileProtectionType` or its raw string. Without it the directory gets the
    ///     default of the nearest directory above that has one, and keeps it when it is moved. Foundation sets the others.
    ///   - keybag: any keybag; a directory belongs to none.
    /// - Throws: `CocoaError` 3328 (`featureUnsupported`) for a class that there is not; 512 (`fileWriteUnknown`), with the
    ///   ``DataProtectionError`` underneath, where the file system has no extended attributes. The directory is not created then. What
    ///   Foundation throws.
    public func createDirectory(
        atPath path: String, withIntermediateDirectories createIntermediates: Bool,
        attributes: [FileAttributeKey: Any]? = nil, protectedBy keybag: Keybag
    ) throws {
        let protectionClass = try attributes?.protectionClass(of: path)
        try createDirectory(path, createIntermediates, protectionClass, attributes?.withoutProtection ?? [:])
    }

    /// Creates as ``createDirectory(atPath:withIntermediateDirectories:attributes:protectedBy:)``.
    public func createDirectory(
        at url: URL, withIntermediateDirectories createIntermediates: Bool,
        attributes: [FileAttributeKey: Any]? = nil, protectedBy keybag: Keybag
    ) throws {
        let path: FilePath
        do throws(DataProtectionError) { path = try url.filePath() } catch {
            throw error.cocoaError(for: url, isWriting: true)
        }
        try createDirectory(
            atPath: path.string, withIntermediateDirectories: createIntermediates, attributes: attributes,
            protectedBy: keybag)
    }

    private func createDirectory(
        _ path: String, _ createIntermediates: Bool, _ protectionClass: ProtectionClass?,
        _ others: [FileAttributeKey: Any]
    ) throws {
        let place = FilePath(path)
        if createIntermediates, !OwnDirectory.exists(place.directory) {
            try createDirectory(place.directory.string, true, protectionClass, others)
        }
        let isThere = OwnDirectory.exists(place)
        try createDirectory(atPath: path, withIntermediateDirectories: createIntermediates, attributes: nil)
        guard !isThere else { return }
        // Before the other attributes: a directory that may not be written to takes no class.
        try inFoundationsWords(path, isWriting: true) { path throws(DataProtectionError) in
            do throws(DataProtectionError) { try DirectoryDefault.set(protectionClass, ofNew: path) } catch {
                _ = path.withPlatformString { rmdir($0) }
                throw error
            }
        }
        if !others.isEmpty { try setAttributes(others, ofItemAtPath: path) }
    }
}

extension DirectoryDefault {
    /// Gives a directory that was just made its class: `protectionClass`, else that of the nearest directory above that has one.
    fileprivate static func set(
        _ protectionClass: ProtectionClass?, ofNew path: FilePath
    ) throws(DataProtectionError) {
        let above = protectionClass == nil ? try nearest(to: path) : nil
        let inherited = above.flatMap { $0.isOwn ? DefaultClass(directory: $0.value).resolve().protectionClass : nil }
        guard let wanted = protectionClass ?? inherited else { return }
        // By the directory itself: a link that took its place meanwhile leads to another one.
        let new = try DirectoryEntry(path)
        let made = try new.directory.directory(new.name)
        try withExtendedLifetime(made) { () throws(DataProtectionError) in try set(wanted, of: made.descriptorPath) }
    }
}
