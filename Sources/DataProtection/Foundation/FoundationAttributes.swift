import DurableFiles
public import FoundationEssentials
import Glibc
import Keybags
import ProtectedFiles
import ProtectedTrees
import ProtectionKeys
import SystemPackage

extension FileProtectionType {
    /// Foundation's name of a class.
    public init(_ protectionClass: ProtectionClass) { self.init(rawValue: protectionClass.appleName) }
}

extension ProtectionClass {
    /// The class that Foundation calls so; nil for one that there is not here, such as `NSFileProtectionCompleteWhenUserInactive`.
    public init?(_ type: FileProtectionType) {
        guard let known = Self.allCases.first(where: { $0.appleName == type.rawValue }) else { return nil }
        self = known
    }
}

extension FileManager {
    /// Sets attributes, and with `.protectionKey` really protects.
    ///
    /// A protected file gets the class, stronger or weaker, as the caller says; a plaintext file is converted in place; for
    /// a directory it is the default of new files. The class comes first: if it cannot be had, nothing is changed. Other
    /// attributes are Foundation's own business.
    /// - Parameter attributes: `.protectionKey` is a `FileProtectionType` or its raw string.
    /// - Throws: `CocoaError` 513 while locked; 3328 (`featureUnsupported`) for a class that there is not, such as
    ///   `NSFileProtectionCompleteWhenUserInactive`; other codes for other failures. The ``DataProtectionError`` is
    ///   underneath.
    public func setAttributes(
        _ attributes: [FileAttributeKey: Any], ofItemAtPath path: String, protectedBy keybag: Keybag
    ) throws {
        let protectionClass = try attributes.protectionClass(of: path)
        if let protectionClass {
            try inFoundationsWords(path, isWriting: true) { path throws(DataProtectionError) in
                try AnyFile(path: path, keybag: keybag).convertOrChange(to: protectionClass)
            }
        }
        let others = attributes.withoutProtection
        if !others.isEmpty { try setAttributes(others, ofItemAtPath: path) }
    }

    /// The attributes of a file, with the class that it has under `.protectionKey` and its plaintext size under `.size`.
    ///
    /// Works in every lock state; both are unverified then, as in ``ProtectedFileInfo``. A plaintext file has no
    /// `.protectionKey`; that of a directory is its default class, if it has one.
    /// - Throws: `CocoaError` 257 for a file of another keybag, 259 for a damaged one, with the ``DataProtectionError``
    ///   underneath; what Foundation throws.
    public func attributesOfItem(
        atPath path: String, protectedBy keybag: Keybag
    ) throws -> [FileAttributeKey: Any] {
        var attributes = try attributesOfItem(atPath: path)
        attributes[.protectionKey] = nil
        switch attributes[.type] as? FileAttributeType {
        case .typeDirectory:
            attributes[.protectionKey] = Keybag.defaultProtection(of: FilePath(path)).map { FileProtectionType($0) }
        case .typeRegular:
            let info = try inFoundationsWords(path, isWriting: false) { path throws(DataProtectionError) in
                try AnyFile(path: path, keybag: keybag).info()
            }
            if let info {
                attributes[.protectionKey] = FileProtectionType(info.protectionClass)
                attributes[.size] = UInt(info.size)  // the type that Foundation on Linux gives
            }
        default: break  // a link is not what it leads to
        }
        return attributes
    }
}

extension [FileAttributeKey: Any] {
    /// The class under `.protectionKey`, if there is one.
    ///
    /// - Throws: `CocoaError` 3328 for anything that is not one of our four classes.
    func protectionClass(of path: String) throws -> ProtectionClass? {
        guard let value = self[.protectionKey] else { return nil }
        let name = (value as? FileProtectionType)?.rawValue ?? value as? String
        return try inFoundationsWords(path, isWriting: true) { path throws(DataProtectionError) in
            guard let known = ProtectionClass.allCases.first(where: { $0.appleName == name }) else {
                throw .because(FileFailure.unknownClass(path, name: name ?? "a value of type \(type(of: value))"))
            }
            return known
        }
    }

    /// What is left for Foundation, which would accept a class and do nothing.
    var withoutProtection: Self { filter { $0.key != .protectionKey } }
}

/// A file, whether it is protected or not.
private struct AnyFile {
    let path: FilePath
    let keybag: Keybag

    /// Gives it the class.
    func convertOrChange(
        to protectionClass: ProtectionClass
    ) throws(DataProtectionError) {
        do throws(DataProtectionError) {
            try keybag.setProtection(protectionClass, ofItemAt: path)
        } catch {
            guard try isOfPlaintext(error) else { throw error }
            try keybag.protect(path, as: protectionClass)
        }
    }

    /// A few bytes of plaintext can look like what is left of a protected file: ``ConversionSource/isProtected()``.
    private func isOfPlaintext(
        _ error: DataProtectionError
    ) throws(DataProtectionError) -> Bool {
        switch error {
        case .notProtected: true
        case .damaged(_, .head, _, _): try !ConversionSource(path).isProtected()
        default: false
        }
    }

    /// Nil for plaintext.
    func info() throws(DataProtectionError) -> ProtectedFileInfo? {
        do throws(DataProtectionError) {
            let info = try ProtectedFileInfo(of: path)
            guard info.keybag == keybag.uuid else { throw .because(FileFailure.foreignKeybag(path, info.keybag)) }
            return info
        } catch .notProtected {
            return nil
        }
    }
}
