import Glibc
import SystemPackage

/// Paths as the bytes that they are: names need not be UTF-8.
extension FilePath {
    /// The bytes, without the terminator.
    package var bytes: [UInt8] {
        withPlatformString { start in
            var bytes: [UInt8] = []
            var next = start
            while next.pointee != 0 {
                bytes.append(UInt8(bitPattern: next.pointee))
                next += 1
            }
            return bytes
        }
    }

    /// A path from bytes without NUL.
    package init(bytes: [UInt8]) {
        self.init(platformString: bytes.map { CInterop.PlatformChar(bitPattern: $0) } + [0])
    }

    /// The directory that the name is in.
    package var directory: FilePath {
        let directory = removingLastComponent()
        return directory.isEmpty ? "." : directory
    }

    /// lstat(2); nil if there is nothing. Of an open directory its own, and not that of the link in /proc.
    package func status() throws(DataProtectionError) -> stat? {
        var status = Glibc.stat()
        do throws(DataProtectionError) {
            _ = try retrying(self, "lstat") {
                withPlatformString { fstatat(AT_FDCWD, $0, &status, isDescriptor ? 0 : AT_SYMLINK_NOFOLLOW) }
            }
            return status
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return nil
        }
    }

    /// Whether anything has that name, a link that leads nowhere too.
    ///
    /// - Throws: `system` if that cannot be seen, also below a link that leads nowhere: what it leads to may be on a disk that is away.
    package func isThere() throws(DataProtectionError) -> Bool {
        do throws(DataProtectionError) {
            if try status() != nil { return true }
        } catch .system(_, _, .notDirectory) { return false }
        var above = removingLastComponent()
        while !above.isEmpty {
            if let status = try above.status() {
                if status.st_mode & S_IFMT == S_IFLNK {
                    throw .system(above, operation: "stat", .noSuchFileOrDirectory)
                }
                return false
            }
            guard above.removeLastComponent() else { return false }
        }
        return false
    }

    /// `.NAME.protectfs-unfinished-MARK`: what is being made and is to be renamed to this path.
    ///
    /// - Parameter mark: at most 41 bytes.
    package func beside(unfinished mark: String) -> FilePath {
        guard let name = lastComponent else { return directory.appending("..protectfs-unfinished-\(mark)") }
        return directory.appending(name.unfinished(mark))
    }
}

extension FilePath.Component {
    /// The bytes, without the terminator.
    package var bytes: [UInt8] { FilePath(root: nil, [self]).bytes }

    /// `.NAME.protectfs-unfinished-MARK`. NAME is cut to 190 bytes, so that all has at most 255 bytes, as the name itself may have.
    package func unfinished(_ mark: String) -> FilePath.Component {
        let bytes = Array(".".utf8) + beginning(190) + Array(".protectfs-unfinished-\(mark)".utf8)
        return FilePath(bytes: bytes).lastComponent!
    }

    /// A name for what is kept beside a file. This one is cut where all together would be longer than 255 bytes.
    package func followed(by suffix: String) -> FilePath.Component {
        FilePath(bytes: beginning(255 - suffix.utf8.count) + Array(suffix.utf8)).lastComponent!
    }

    /// The first bytes, at most `count`. A cut is not within a character of UTF-8, because some file systems refuse anything else.
    package func beginning(_ count: Int) -> [UInt8] {
        let bytes = bytes
        guard bytes.count > count else { return bytes }
        let isContinuation = { (byte: UInt8) in byte & 0xC0 == 0x80 }
        let start = ((max(count, 3) - 3)...count).last { !isContinuation(bytes[$0]) }
        return Array(bytes[..<(start ?? count)])
    }
}
