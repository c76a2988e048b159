import Foundation
import Testing

private func hugePlace() -> String { "/dev/shm/protectfs-tests-\(UInt64.random(in: 0...UInt64.max))" }

private let canMakeHugeFiles: Bool = {
    let path = hugePlace()
    defer { unlink(path) }
    return FileManager.default.createFile(atPath: path, contents: nil) && truncate(path, 1 << 60) == 0
}()

/// Anybody can make files whose sizes add up to more than 2^63 bytes: they are sparse.
@Suite(
    "Files of more bytes than a number has room for",
    .enabled(if: canMakeHugeFiles, "no file of 2^60 bytes can be made in /dev/shm"))
struct HugeFilesTests {
    private let sandbox: CommandSandbox

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
    }

    /// Runs commands in a directory with nine of them.
    private func run(_ script: String) throws -> Finished {
        let tree = hugePlace()
        return try sandbox.shell(
            """
            set -e
            trap "rm -rf '\(tree)'" EXIT
            mkdir '\(tree)'
            for name in 1 2 3 4 5 6 7 8 9; do truncate -s 1E '\(tree)'/$name; done
            set +e
            \(script.replacing("TREE", with: "'\(tree)'"))
            """)
    }

    @Test("A backup leaves them out, and says so")
    func backup() throws {
        let done = try run(
            "printf 'correct horse battery staple' | \"$PROTECTFS\" backup --to backup --passphrase-fd 0 TREE")
        #expect(done.status == 0, "\(done.errors)")
        #expect(done.errors.contains("9 files not protected"), "\(done.errors)")
    }

    @Test("protect asks before it begins")
    func protect() throws {
        let done = try run("\"$PROTECTFS\" protect -r TREE </dev/null")
        #expect(done.status == 64, "\(done.errors)")
        #expect(done.errors.contains("9 files would be readable only through protectfs"), "\(done.errors)")
    }
}
