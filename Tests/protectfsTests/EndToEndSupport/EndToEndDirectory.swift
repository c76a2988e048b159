import Foundation
import SystemPackage

/// A directory of a test's own that everybody may look into, removed with all it holds when this object goes.
final class EndToEndDirectory: Sendable {
    let path: FilePath

    init() throws {
        _ = isolatedEndToEndHome
        path = try Self.make()
        guard chmod(path.string, 0o755) == 0 else { throw Errno(rawValue: errno) }
    }

    deinit { try? FileManager.default.removeItem(atPath: path.string) }

    fileprivate static func make() throws -> FilePath {
        let parent = FilePath(getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp")
        var template = Array(parent.appending("protectfs-end-to-end-XXXXXX").string.utf8CString)
        guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
        return template.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) }
    }
}

/// The XDG directories of this test process: a keybag that is made here is remembered in them, not in the user's.
private let isolatedEndToEndHome: Void = {
    guard getenv("PROTECTFS_TEST_HOME") == nil, let home = try? EndToEndDirectory.make() else { return }
    for (variable, name) in [("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")] {
        setenv(variable, home.appending(name).string, 1)
    }
    setenv("PROTECTFS_TEST_HOME", home.string, 1)
    unsetenv("PROTECTFS_KEYBAG")
    madeHome = home
    // Ours, not what the variable says then: another suite may have set it in the same moment.
    atexit { if let madeHome { try? FileManager.default.removeItem(atPath: madeHome.string) } }
}()

// Written once, above.
private nonisolated(unsafe) var madeHome: FilePath?

/// What tests do to files without the command.
extension FilePath {
    /// The names in the directory, hidden ones too, sorted.
    func entries() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: string).sorted() }

    /// All bytes of the file as it is stored.
    func storedBytes() throws -> [UInt8] { Array(try Data(contentsOf: URL(fileURLWithPath: string))) }

    /// Makes the file with these bytes.
    func store(_ bytes: [UInt8]) throws { try Data(bytes).write(to: URL(fileURLWithPath: string)) }

    /// The regular files below the directory.
    func filesBelow() throws -> [FilePath] {
        guard let walk = FileManager.default.enumerator(atPath: string) else { throw Errno.noSuchFileOrDirectory }
        return walk.compactMap { $0 as? String }.map { pushing(FilePath($0)) }.filter { path in
            (try? path.stat(followTargetSymlink: false).type) == .regular
        }
    }

    /// mkdir(2).
    func makeDirectory() throws {
        guard mkdir(string, 0o755) == 0 else { throw Errno(rawValue: errno) }
    }
}
