import Glibc
import SystemPackage
import Testing

@testable import DataProtection

/// Keeps others from opening a file without waiting: fcntl(2), F_SETLEASE.
final class Lease {
    private let file: LowerFile

    init(_ path: FilePath) throws {
        file = try LowerFile(path, flags: O_RDWR)
        // F_SETSIG and F_SETLEASE of fcntl.h, which hides them behind _GNU_SOURCE. SIGURG does nothing to anybody.
        #expect(fcntl(file.descriptor, 10, SIGURG) == 0)
        try #require(fcntl(file.descriptor, 1024, F_WRLCK) == 0, "\(Errno.current)")
    }

    func end() { try? file.close() }
}
