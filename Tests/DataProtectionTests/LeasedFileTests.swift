import Glibc
import SystemPackage
import Testing

@testable import DataProtection

/// A file of which somebody has a lease, as a conversion or a class change has: fcntl(2), F_SETLEASE.
@Suite struct LeasedFileTests {
    @Test("Opening a leased file fails as busy until the lease ends")
    func busy() throws {
        let bed = try FileTestBed()
        let path = bed.path("f")
        try path.overwrite([1])
        let lease = try Lease(path)
        expectError("busy") { _ = try LowerFile(path, flags: O_RDONLY | O_NONBLOCK) }
        let directory = try LowerDirectory(bed.directory)
        expectError("busy") { _ = try directory.file("f", flags: O_RDONLY, path: path) }
        lease.end()
        #expect(try LowerFile(path, flags: O_RDONLY | O_NONBLOCK).length() == 1)
    }
}
