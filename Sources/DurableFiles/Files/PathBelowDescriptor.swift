import Glibc
import SystemPackage

/// Paths that begin at an open directory of this process: `/proc/self/fd/N`, and `/proc/self/fd/N/a/b`. They lead to what is there, whatever is
/// mounted over that directory.
extension FilePath {
    private static let descriptors: FilePath = "/proc/self/fd"

    /// The beginning, `/proc/self/fd/N`; nil for any other path.
    private var openDirectory: FilePath? {
        guard starts(with: Self.descriptors), let number = components.dropFirst(3).first, Int32(number.string) != nil
        else { return nil }
        return Self.descriptors.appending(number)
    }

    /// Whether it begins at an open directory.
    package var isBelowDescriptor: Bool { openDirectory != nil }

    /// Whether it is an open directory itself.
    package var isDescriptor: Bool { openDirectory == self }

    /// The same place without links and dots. A path that begins at an open directory goes on to, as long as it stays below that: through its
    /// name it could lead to what is mounted there. The C calls are `realpath`, `open` and `readlink`; the place must be there.
    package func resolved() throws(DataProtectionError) -> FilePath {
        try namedFromOpenDirectory(resolvedName())
    }

    /// A name of some place, as a path that begins at the open directory where this one begins, if the place is below that.
    fileprivate func namedFromOpenDirectory(_ name: FilePath) throws(DataProtectionError) -> FilePath {
        guard let openDirectory else { return name }
        var rest = name
        return rest.removePrefix(try Self.target(of: openDirectory)) ? openDirectory.pushing(rest) : name
    }

    /// The same place as others name it, and as it may be written down: it never begins at an open directory. It need not lead back there.
    package func resolvedName() throws(DataProtectionError) -> FilePath {
        guard isBelowDescriptor else { return try realPath() }
        let opened = try retrying(self, "open") { withPlatformString { open($0, LowerFile.pathOnly | O_CLOEXEC) } }
        defer { close(opened) }
        return try Self.target(of: Self.descriptors.appending("\(opened)"))
    }

    private func realPath() throws(DataProtectionError) -> FilePath {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        guard withPlatformString({ realpath($0, &buffer) }) != nil else {
            throw .system(self, operation: "realpath", Errno(rawValue: errno))
        }
        return FilePath(platformString: buffer)
    }

    /// What a link says: readlink(2).
    private static func target(of link: FilePath) throws(DataProtectionError) -> FilePath {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        let count = try retrying(link, "readlink") {
            link.withPlatformString { readlink($0, &buffer, buffer.count - 1) }
        }
        return FilePath(bytes: buffer[..<count].map { UInt8(bitPattern: $0) })
    }
}

extension [UInt8] {
    fileprivate func ends(with other: some Collection<UInt8>) -> Bool { suffix(other.count).elementsEqual(other) }
}

extension LowerFile {
    /// Where the file is by now, and not by the links that may have led to it. It begins at an open directory if ``path`` does.
    package func place() throws(DataProtectionError) -> FilePath {
        let name = try namedDescriptorPath.resolvedName()
        // What was made without a name is called deleted by the kernel as long as it is open: proc(5). It is looked for where it got its name.
        if name.bytes.ends(with: " (deleted)".utf8), let last = path.lastComponent, try isNamed(path) {
            return try path.directory.resolved().appending(last)
        }
        return try path.namedFromOpenDirectory(name)
    }
}
