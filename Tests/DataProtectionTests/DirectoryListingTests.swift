import Glibc
import SystemPackage
import Testing

@testable import DataProtection

/// Names in a directory: all of them, or an error.
@Suite struct DirectoryListingTests {
    private let place = ScratchDirectory()

    /// In the order of their bytes; more than one getdents(2) brings.
    @Test func all() throws {
        let names = (0..<3000).map { "name \($0)" }
        for name in names { try AtomicReplace.write([], to: name, in: place.path, through: ".new") }
        let sorted = names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        #expect(try DirectoryListing.names(of: place.path) == sorted)
    }

    @Test func nothing() throws {
        #expect(try DirectoryListing.names(of: place.path) == [])
        let gone = place.path.appending("gone")
        #expect(throws: DataProtectionError.system(gone, operation: "opendir", .noSuchFileOrDirectory)) {
            try DirectoryListing.names(of: gone)
        }
    }

    /// readdir(3) says the end and an error in the same way, but for errno.
    @Test func failsInTheMiddle() throws {
        let stream = try #require(place.path.withPlatformString { opendir($0) })
        // What is read now is no directory: ENOTDIR, as EIO would come from a bad block.
        let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
        try #require(dup2(file, dirfd(stream)) >= 0)
        close(file)
        #expect(throws: DataProtectionError.system(place.path, operation: "readdir", .notDirectory)) {
            try DirectoryListing.components(reading: stream, of: place.path)
        }
    }
}
