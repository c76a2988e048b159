import Foundation
import SystemPackage

/// The XDG directories of this test process: nothing that a test does reaches those of the user.
///
/// Set once, before the first keybag is made. A child of an exit test inherits its parent's.
let isolatedHome: FilePath = {
    if let inherited = getenv("PROTECTFS_TEST_HOME") { return FilePath(platformString: inherited) }
    let home = ScratchDirectory.make("protectfs-home")
    for (variable, name) in [("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")] {
        setenv(variable, home.appending(name).string, 1)
    }
    setenv("PROTECTFS_TEST_HOME", home.string, 1)
    unsetenv("PROTECTFS_KEYBAG")
    atexit { ScratchDirectory.remove(isolatedHome) }
    return home
}()

/// A directory of a test's own, removed with all it holds when this object goes.
final class ScratchDirectory: Sendable {
    let path: FilePath

    /// - Parameter parent: nil: where temporary files are.
    init(in parent: FilePath? = nil) {
        _ = isolatedHome
        path = Self.make("protectfs-test", in: parent)
    }

    deinit { Self.remove(path) }

    fileprivate static func make(_ name: String, in parent: FilePath? = nil) -> FilePath {
        let parent = parent ?? FilePath(getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp")
        var template = parent.appending("\(name)-XXXXXX").string.utf8CString.map { $0 }
        guard mkdtemp(&template) != nil else { fatalError("mkdtemp: \(String(cString: strerror(errno)))") }
        return template.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) }
    }

    fileprivate static func remove(_ path: FilePath) { try? FileManager.default.removeItem(atPath: path.string) }
}

/// What tests do to files behind the library's back.
extension FilePath {
    /// All bytes of the file.
    func contents() throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: string))) }

    /// Makes the file, or gives it other bytes; the inode stays.
    func overwrite(_ bytes: [UInt8]) throws {
        let file = try FileDescriptor.open(
            self, .writeOnly, options: [.create, .truncate, .closeOnExec], permissions: .ownerReadWrite)
        try file.closeAfter { _ = try file.writeAll(bytes) }
    }

    /// Puts an empty directory in the file's place.
    func replaceByDirectory() throws {
        try FileManager.default.removeItem(atPath: string)
        try FileManager.default.createDirectory(atPath: string, withIntermediateDirectories: false)
    }

    /// Removes the file, or the directory with all it holds.
    func remove() throws { try FileManager.default.removeItem(atPath: string) }

    /// The names in the directory, sorted.
    func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: string).sorted() }

    /// The permission bits.
    func mode() throws -> mode_t { try stat().permissions.rawValue & 0o7777 }

    /// chmod(2).
    func setMode(_ mode: mode_t) throws {
        guard chmod(string, mode) == 0 else { throw Errno(rawValue: errno) }
    }

    /// Whether it is a regular file itself, not by way of a link.
    func isRegularFile() throws -> Bool { try stat(followTargetSymlink: false).type == .regular }

    /// symlink(2): this path leads to `target`.
    func makeSymbolicLink(to target: FilePath) throws {
        guard symlink(target.string, string) == 0 else { throw Errno(rawValue: errno) }
    }

    /// mkfifo(3), mode 0600.
    func makeFIFO() throws {
        guard mkfifo(string, 0o600) == 0 else { throw Errno(rawValue: errno) }
    }
}
