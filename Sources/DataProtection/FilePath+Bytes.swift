package import SystemPackage

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
    init(bytes: [UInt8]) {
        self = (bytes.map { CInterop.PlatformChar(bitPattern: $0) } + [0]).withUnsafeBufferPointer {
            FilePath(platformString: $0.baseAddress!)
        }
    }

    /// The directory that the name is in.
    var directory: FilePath {
        let directory = removingLastComponent()
        return directory.isEmpty ? "." : directory
    }
}
