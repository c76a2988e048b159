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
        self = (bytes.map { CInterop.PlatformChar(bitPattern: $0) } + [0]).withUnsafeBufferPointer {
            FilePath(platformString: $0.baseAddress!)
        }
    }

    /// The directory that the name is in.
    package var directory: FilePath {
        let directory = removingLastComponent()
        return directory.isEmpty ? "." : directory
    }

    /// The same place without links and dots. The C call is `realpath`; the place must be there.
    package func resolved() throws(DataProtectionError) -> FilePath {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
        guard withPlatformString({ realpath($0, &buffer) }) != nil else {
            throw .system(self, operation: "realpath", Errno(rawValue: errno))
        }
        return buffer.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) }
    }

    /// lstat(2); nil if there is nothing.
    package func status() throws(DataProtectionError) -> stat? {
        var status = Glibc.stat()
        do throws(DataProtectionError) {
            _ = try retrying(self, "lstat") { withPlatformString { lstat($0, &status) } }
            return status
        } catch .system(_, _, .noSuchFileOrDirectory) {
            return nil
        }
    }

    /// `.NAME.protectfs-unfinished-MARK`: what is being made and is to be renamed to this path.
    ///
    /// - Parameter mark: at most 41 bytes.
    package func beside(unfinished mark: String) -> FilePath {
        let name = lastComponent?.string ?? ""
        // With what is put around it, it has at most 255 bytes, as the name itself may have.
        var end = name.startIndex
        while end < name.endIndex, name[...end].utf8.count <= 190 { end = name.index(after: end) }
        return directory.appending(".\(name[..<end]).protectfs-unfinished-\(mark)")
    }
}
