import Foundation
import Glibc
import SystemPackage
import Testing

@testable import DataProtection
@testable import DurableFiles

#if compiler(>=6.3)
    /// The new owner did not choose the permissions of the other user's file.
    @Suite(
        "Only the new owner can read a file that copies or replaces another user's file",
        .enabled(if: geteuid() == 0, "only root can make a file of another user"))
    struct OtherOwnerTests {
        @Test func attributes() async throws {
            let place = ScratchDirectory()
            let theirs = place.path.appending("theirs")
            try theirs.overwrite([1])
            let acl = Process()
            acl.executableURL = URL(fileURLWithPath: "/usr/bin/setfacl")
            acl.arguments = ["-m", "u:12345:rw", theirs.string]
            try acl.run()
            acl.waitUntilExit()
            try #require(acl.terminationStatus == 0, "setfacl(1)")
            try #require(chmod(theirs.string, 0o766) == 0 && chown(theirs.string, 12345, 12345) == 0)
            try #require(chmod(place.path.string, 0o755) == 0)
            // Of each user that ``AnotherUser`` may become, with a group that it does not belong to.
            for number in 0..<uid_t(64) {
                let own = place.path.appending("own-\(number)")
                try own.overwrite([1])
                try #require(chown(own.string, 1_900_000_000 + number, 12345) == 0 && chmod(own.string, 0o2674) == 0)
            }
            await #expect(processExitsWith: .success) { [name = theirs.string as String] in
                let home = try AnotherUser.become()
                func made(_ name: String) throws -> LowerFile {
                    try LowerFile(home.appending(name), flags: O_RDWR | O_CREAT)
                }
                func letsOthers(_ file: LowerFile) throws -> Bool {
                    let acl = ExtendedAttributes.get(ExtendedAttributes.accessACL, of: file.path)
                    return try file.status().st_mode & 0o077 != 0 || acl != nil
                }
                let source = try LowerFile(FilePath(name), flags: O_RDONLY)
                #expect(try letsOthers(source))
                let (replacing, copy) = (try made("replacing"), try made("copy"))
                try FileAttributes.inherit(from: source, to: replacing)
                try FileAttributes.copy(from: source, to: copy, keepingOwner: false)
                for file in [replacing, copy] {
                    #expect(try !letsOthers(file))
                    #expect(try file.status().st_mode & 0o700 == 0o700)
                }
                // What the group of a file may do counts for no other group.
                let foreign = FilePath(name).removingLastComponent().appending("own-\(geteuid() - 1_900_000_000)")
                let ofGroup = try LowerFile(foreign, flags: O_RDONLY)
                let (afterIt, ofIt) = (try made("after it"), try made("of it"))
                try FileAttributes.inherit(from: ofGroup, to: afterIt)
                try FileAttributes.copy(from: ofGroup, to: ofIt, keepingOwner: false)
                for file in [afterIt, ofIt] { #expect(try file.status().st_mode & 0o7777 == 0o604) }
                // Of a file of one's own everything stays.
                let own = try made("own")
                try #require(chmod(own.path.string, 0o754) == 0)
                let (newer, second) = (try made("newer"), try made("second"))
                try FileAttributes.inherit(from: own, to: newer)
                try FileAttributes.copy(from: own, to: second, keepingOwner: false)
                for file in [newer, second] { #expect(try file.status().st_mode & 0o777 == 0o754) }
                try home.remove()
            }
        }
    }
#endif
