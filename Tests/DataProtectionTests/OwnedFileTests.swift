import Glibc
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

// Root may write to everything, so the tests are another user's.
#if compiler(>=6.3)
    /// As for chmod(2), owning a file is enough to change its class.
    @Suite("Files that nobody may write to", .enabled(if: geteuid() == 0, "only root can become somebody else"))
    struct OwnedFileTests {
        @Test("Their class is changed, their keys are rotated, and their mode stays", arguments: [0o444, 0o400, 0o555])
        func changed(mode: Int) async {
            await #expect(processExitsWith: .success) { [mode] in
                let home = try AnotherUser.become()
                let bed = try FileTestBed()
                let path = try bed.make("f", .completeUntilFirstUserAuthentication, [1, 2, 3])
                try path.setMode(mode_t(mode))
                expectError("system") { _ = try LowerFile(path, flags: O_RDWR) }
                try bed.keybag.setProtection(.complete, ofItemAt: path)
                #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
                try bed.bag.rotate()
                #expect(try bed.keybag.rewrap(fileAt: path) == .rewrapped)
                #expect(try StoredWraps(path).generations == [2])
                #expect(try path.mode() == mode_t(mode))
                #expect(try bed.read(path) == [1, 2, 3])
                try home.remove()
            }
        }

        @Test("An upgrade raises them, by itself and of a whole directory", arguments: [0o444, 0o400])
        func raised(mode: Int) async {
            await #expect(processExitsWith: .success) { [mode] in
                let home = try AnotherUser.become()
                let bed = try FileTestBed()
                let one = try bed.make("one", .completeUntilFirstUserAuthentication, [1])
                let two = try bed.make("two", .completeUntilFirstUserAuthentication, [2])
                for path in [one, two] { try path.setMode(mode_t(mode)) }
                #expect(try bed.keybag.protect(one, as: .complete) == .raised)
                let pass = try UpgradePass(
                    bed.keybag, two.removingLastComponent(), to: .complete, rules: nil, options: UpgradeOptions())
                #expect(pass.run { _ in }.raised == 1)
                for path in [one, two] {
                    #expect(try ProtectedFileInfo(of: path).protectionClass == .complete)
                    #expect(try path.mode() == mode_t(mode))
                }
                try home.remove()
            }
        }

        @Test("A change of class that was killed is finished by a lock")
        func finished() async {
            await #expect(processExitsWith: .success) {
                let home = try AnotherUser.become()
                let bed = try FileTestBed()
                let path = try bed.make("f", .completeUntilFirstUserAuthentication, [1])
                let old = Array(try path.contents().prefix(4096))
                try bed.keybag.setProtection(.complete, ofItemAt: path)
                let file = try LowerFile(path, flags: O_RDWR)
                try file.write(old, at: UInt64(try HeadPair(of: file).target * 4096))
                try path.setMode(0o400)
                // Its note is a dead process's as soon as nobody holds it.
                do { _ = try ClassChangeIntent(file, in: bed.keybag.directory, lasting: false) }
                try bed.keybag.lock()
                #expect(bed.notes.isEmpty)
                #expect(try !StoredFile(path).heads.hasStaleWrap)
                #expect(bed.bag.warnings.unusual == [])
                try home.remove()
            }
        }

        @Test("Of another user they are left alone; a class that they have already is no change")
        func others() async {
            await #expect(processExitsWith: .success) {
                let bed = try FileTestBed(state: .beforeFirstUnlock)
                let path = try bed.make("f", .none, [1])
                try path.setMode(0o444)
                let keybag = bed.keybag
                let before = try path.contents()
                #expect(chdir(bed.directory.string) == 0)
                #expect(setegid(60_001) == 0 && seteuid(60_001) == 0)
                defer { _ = seteuid(0) }  // whoever made the test bed takes it away
                let error = expectError("system") { try keybag.setProtection(.completeUnlessOpen, ofItemAt: "f") }
                #expect(error?.errno == .permissionDenied)
                #expect(throws: Never.self) { try keybag.setProtection(.none, ofItemAt: "f") }
                let file = open("f", O_RDONLY)
                var bytes = [UInt8](repeating: 0, count: before.count)
                #expect(read(file, &bytes, bytes.count) == before.count && bytes == before)
                var status = stat()
                #expect(fstat(file, &status) == 0 && status.st_mode & 0o7777 == 0o444)
            }
        }
    }
#endif
