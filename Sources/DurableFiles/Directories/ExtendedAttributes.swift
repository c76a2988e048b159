import CExtendedAttributes
import Glibc
import SystemPackage

/// xattr(7) in Swift.
package enum ExtendedAttributes {
    /// How names begin that protectfs gives.
    private static let own = "user.protectfs."

    /// The value, or nil if there is none or the file system has no such thing. The C call is `getxattr`.
    package static func get(_ name: String, of path: FilePath) -> [UInt8]? {
        var value = [UInt8](repeating: 0, count: 256)
        let count = path.withPlatformString { getxattr($0, name, &value, value.count) }
        return count >= 0 ? Array(value[..<count]) : nil
    }

    /// The value, up to 256 bytes. The C call is `fgetxattr`.
    ///
    /// - Throws: `system`: ENODATA where there is none, ERANGE where it is longer.
    package static func get(_ name: String, in directory: LowerDirectory) throws(DataProtectionError) -> [UInt8] {
        // The descriptor may be one that is only good for looking up names.
        let open = try retrying(directory.path, "openat") {
            openat(directory.descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        }
        defer { close(open) }
        var value = [UInt8](repeating: 0, count: 256)
        let count = try retrying(directory.path, "fgetxattr") { fgetxattr(open, name, &value, value.count) }
        return Array(value[..<count])
    }

    /// The value, of any length. The C call is `fgetxattr`.
    ///
    /// - Throws: `system`: ENODATA where there is none, EOPNOTSUPP where the file system has no such thing.
    package static func value(_ name: String, of file: LowerFile) throws(DataProtectionError) -> [UInt8] {
        try bytes(file, "fgetxattr") { fgetxattr(file.descriptor, name, $0, $1) }
    }

    /// All names, which need not be UTF-8. The C call is `flistxattr`.
    package static func names(of file: LowerFile) throws(DataProtectionError) -> [[UInt8]] {
        let all = try bytes(file, "flistxattr") {
            flistxattr(file.descriptor, $0?.assumingMemoryBound(to: CChar.self), $1)
        }
        return all.split(separator: 0).map(Array.init)
    }

    /// What a call fills in that says the length when it is asked with no room.
    private static func bytes(
        _ file: LowerFile, _ operation: String, _ call: (UnsafeMutableRawPointer?, Int) -> Int
    ) throws(DataProtectionError) -> [UInt8] {
        while true {
            let length = try retrying(file.path, operation) { call(nil, 0) }
            // One more, so that there is room even for nothing.
            var bytes = [UInt8](repeating: 0, count: length + 1)
            do throws(DataProtectionError) {
                let count = try retrying(file.path, operation) {
                    bytes.withUnsafeMutableBytes { call($0.baseAddress, $0.count) }
                }
                return Array(bytes.prefix(count))
            } catch {
                guard error.errno == .outOfRange else { throw error }  // longer by now
            }
        }
    }

    /// Sets a value. The C call is `setxattr`.
    package static func set(_ name: String, to value: [UInt8], of path: FilePath) throws(DataProtectionError) {
        _ = try retrying(path, "setxattr") { path.withPlatformString { setxattr($0, name, value, value.count, 0) } }
    }

    /// Sets a value of an open directory, whatever its path leads to by now.
    package static func set(
        _ name: String, to value: [UInt8], of directory: LowerDirectory
    ) throws(DataProtectionError) {
        // fsetxattr(2) takes no descriptor that is only good for looking up names.
        _ = try retrying(directory.path, "setxattr") {
            directory.descriptorPath.withPlatformString { setxattr($0, name, value, value.count, 0) }
        }
    }

    /// Sets a value of an open file or directory. The C call is `fsetxattr`.
    ///
    /// - Parameter flags: XATTR_CREATE, XATTR_REPLACE or neither.
    package static func set(
        _ name: String, to value: [UInt8], of file: LowerFile, flags: Int32
    ) throws(DataProtectionError) {
        _ = try retrying(file.path, "fsetxattr") { fsetxattr(file.descriptor, name, value, value.count, flags) }
    }

    /// Takes an attribute of an open file or directory away. The C call is `fremovexattr`.
    package static func remove(_ name: String, of file: LowerFile) throws(DataProtectionError) {
        _ = try retrying(file.path, "fremovexattr") { fremovexattr(file.descriptor, name) }
    }

    /// Takes the attribute away. The C call is `removexattr`.
    package static func remove(_ name: String, of path: FilePath) throws(DataProtectionError) {
        _ = try retrying(path, "removexattr") { path.withPlatformString { removexattr($0, name) } }
    }

    /// Copies everything that one open file carries to another: ACLs are among them. The C calls are `flistxattr`,
    /// `fgetxattr` and `fsetxattr`.
    ///
    /// Attributes by which protectfs notes something about a file stay with that file. A directory's, its default class, is copied.
    ///
    /// - Parameters:
    ///   - isWithoutACL: leaves the ACL out, and removes one that the target has.
    ///   - isEssential: which names must not be lost; others are copied where the file system lets us.
    package static func copy(
        from source: LowerFile, to target: LowerFile, withoutACL isWithoutACL: Bool = false,
        isEssential: (String) -> Bool
    ) throws(DataProtectionError) {
        var names = try cNames(of: source)
        if names.contains(where: { $0.text.hasPrefix(own) }), try source.status().st_mode & S_IFMT != S_IFDIR {
            names.removeAll { $0.text.hasPrefix(own) }
        }
        if isWithoutACL { names.removeAll { $0.text == accessACL } }
        for name in names {
            do throws(DataProtectionError) {
                let value = try bytes(source, "fgetxattr") { fgetxattr(source.descriptor, name, $0, $1) }
                _ = try retrying(target.path, "fsetxattr") {
                    fsetxattr(target.descriptor, name, value, value.count, 0)
                }
            } catch {
                if isEssential(name.text) { throw error }
            }
        }
        // A new file has got the default ACL of its directory.
        if !names.contains(where: { $0.text == accessACL }) { _ = fremovexattr(target.descriptor, accessACL) }
    }

    /// The ACL of a file: acl(5).
    package static let accessACL = "system.posix_acl_access"

    /// Each with its 00: names need not be UTF-8.
    private static func cNames(of file: LowerFile) throws(DataProtectionError) -> [[CChar]] {
        let capacity = flistxattr(file.descriptor, nil, 0)
        guard capacity > 0 else { return [] }  // none, or a file system without them
        var buffer = [CChar](repeating: 0, count: capacity)
        let count = try retrying(file.path, "flistxattr") { flistxattr(file.descriptor, &buffer, capacity) }
        return buffer[..<count].split(separator: 0).map { Array($0) + [0] }
    }
}

extension [CChar] {
    /// Without the 00 at its end.
    fileprivate var text: String { String(decoding: dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self) }
}
