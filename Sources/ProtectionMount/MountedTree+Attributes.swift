import DataProtection
import DurableFiles
import FuseSession
import Glibc
import ProtectedFiles
import ProtectionKeys
import SystemPackage

/// Extended attributes: those of the file or directory below, in clear, and the class. Of a directory that is its default class; of a file it is
/// in no attribute, and read from the file itself.
extension MountedTree {
    func attribute(_ name: String, of node: FuseNode) throws(Errno) -> [UInt8] {
        // ACLs of the files below mean nothing here: one user has the mount.
        guard name.hasPrefix("user.") else { throw .notSupported }
        let kind = try attributes(of: node).status.st_mode & S_IFMT
        if kind == S_IFREG, name == DirectoryDefault.attribute {
            let file = try file(node, flags: O_RDONLY)
            guard let info = try? ProtectedFileInfo(path: file.path, file: file) else { throw .noData }
            return Array(info.protectionClass.shortName.utf8)
        }
        return try refusing { () throws(DataProtectionError) in
            try ExtendedAttributes.value(name, of: try opened(node, kind))
        }
    }

    /// The class is hidden: `cp -a` would carry it to copies that have a class of their own.
    func attributeNames(of node: FuseNode) throws(Errno) -> [UInt8] {
        let kind = try attributes(of: node).status.st_mode & S_IFMT
        guard kind == S_IFREG || kind == S_IFDIR else { return [] }
        let names = try refusing { () throws(DataProtectionError) in
            try ExtendedAttributes.names(of: try opened(node, kind))
        }
        return names.filter { $0.starts(with: "user.".utf8) && !$0.elementsEqual(DirectoryDefault.attribute.utf8) }
            .flatMap { $0 + [0] }
    }

    func setAttribute(_ name: String, of node: FuseNode, to value: [UInt8], flags: Int32) throws(Errno) {
        guard name.hasPrefix("user.") else { throw .notSupported }
        try requireNamed(node)
        let kind = try attributes(of: node).status.st_mode & S_IFMT
        guard kind == S_IFREG || kind == S_IFDIR else { throw .notPermitted }
        guard name == DirectoryDefault.attribute else {
            return try refusing { () throws(DataProtectionError) in
                try ExtendedAttributes.set(name, to: value, of: try opened(node, kind), flags: flags)
            }
        }
        guard let wanted = WantedClass(value) else { throw .invalidArgument }
        if kind == S_IFDIR {
            try setDefault(of: node, to: wanted, flags)
        } else {
            try setClass(of: node, to: wanted, flags)
        }
    }

    func removeAttribute(_ name: String, of node: FuseNode) throws(Errno) {
        guard name.hasPrefix("user.") else { throw .notSupported }
        try requireNamed(node)
        let kind = try attributes(of: node).status.st_mode & S_IFMT
        if kind == S_IFREG, name == DirectoryDefault.attribute {
            _ = try attribute(name, of: node)
            throw .notPermitted  // a protected file has a class
        }
        try refusing { () throws(DataProtectionError) in
            try ExtendedAttributes.remove(name, of: try opened(node, kind))
        }
    }

    /// A file or a directory, for its attributes. Links and devices have no attributes of users: xattr(7).
    private func opened(_ node: FuseNode, _ kind: mode_t) throws(DataProtectionError) -> LowerFile {
        try reporting { () throws(Errno) in
            switch kind {
            case S_IFDIR:
                let directory = try tree.directory(node)
                let descriptor = try refusing { () throws(DataProtectionError) in
                    try retrying(directory.path, "fcntl") { fcntl(directory.descriptor, F_DUPFD_CLOEXEC, 0) }
                }
                return LowerFile(path: directory.path, descriptor: descriptor)
            case S_IFREG: return try file(node, flags: O_RDONLY)
            default: throw .noData
            }
        }
    }

    // MARK: the class

    /// What somebody sets: the name of a class, behind `weaker:` where the present one may be stronger.
    private struct WantedClass {
        let protectionClass: ProtectionClass
        let allowsWeaker: Bool

        init?(_ value: [UInt8]) {
            let (text, prefix) = (String(decoding: value, as: UTF8.self), "weaker:")
            allowsWeaker = text.hasPrefix(prefix)
            guard let named = ProtectionClass(name: String(text.dropFirst(allowsWeaker ? prefix.count : 0)))
            else { return nil }
            protectionClass = named
        }
    }

    /// - Parameter flags: XATTR_CREATE (1), XATTR_REPLACE (2) of sys/xattr.h, or neither.
    /// - Throws: EEXIST and ENODATA as setxattr(2) has them.
    private static func require(_ isThere: Bool, _ flags: Int32) throws(Errno) {
        if isThere, flags & 1 != 0 { throw .fileExists }
        if !isThere, flags & 2 != 0 { throw .noData }
    }

    /// - Throws: EPERM for a class that is weaker, and for `none`, which no directory gives to its files.
    private func setDefault(of node: FuseNode, to wanted: WantedClass, _ flags: Int32) throws(Errno) {
        guard wanted.protectionClass != .none else { throw .notPermitted }
        let directory = try tree.directory(node)
        defer { withExtendedLifetime(directory) {} }
        let path = directory.descriptorPath
        try Self.require(DirectoryDefault.named(by: path) != nil, flags)
        try refusingWeaker { () throws(DataProtectionError) in
            try DirectoryDefault.set(wanted.protectionClass, of: path, allowsWeaker: wanted.allowsWeaker)
        }
    }

    /// - Throws: ENOKEY unless both class keys are here; EPERM for a class that is weaker; EOPNOTSUPP for a file that is not protected.
    private func setClass(of node: FuseNode, to wanted: WantedClass, _ flags: Int32) throws(Errno) {
        if let written = files.writers[node] { try written.commit() }
        let file = try file(node, flags: O_RDONLY)
        let isProtected = try refusing { () throws(DataProtectionError) in try file.isOneOfOurs() }
        try Self.require(isProtected, flags)
        guard isProtected else { throw .notSupported }
        try refusingWeaker { () throws(DataProtectionError) in
            let heads = try file.forHeads { () throws(DataProtectionError) in
                try reporting { () throws(Errno) in try self.file(node, flags: O_RDWR) }
            }
            try files.keybag.setProtection(
                wanted.protectionClass, of: heads, allowsWeaker: wanted.allowsWeaker)
        }
    }

    /// A weaker class is EPERM: EINVAL is a value that names no class.
    private func refusingWeaker(_ body: () throws(DataProtectionError) -> Void) throws(Errno) {
        try refusing { () throws(DataProtectionError) in
            do throws(DataProtectionError) { try body() } catch .because(FileFailure.wouldWeaken) {
                throw .system(tree.root.path, operation: "setxattr", .notPermitted)
            }
        }
    }
}
