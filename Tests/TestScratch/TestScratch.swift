import Foundation
public import SystemPackage

/// The XDG directories of this test process: nothing that a test does reaches those of the user.
public let isolatedHome: FilePath = {
    if let inherited = getenv("PROTECTFS_TEST_HOME") { return FilePath(platformString: inherited) }
    guard let home = try? scratch("protectfs-home") else { fatalError("mkdtemp: \(errno)") }
    for (variable, name) in [("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")] {
        setenv(variable, home.appending(name).string, 1)
    }
    setenv("PROTECTFS_TEST_HOME", home.string, 1)
    unsetenv("PROTECTFS_KEYBAG")
    atexit { try? FileManager.default.removeItem(atPath: isolatedHome.string) }
    return home
}()

/// A new directory.
///
/// - Parameter parent: nil: where temporary files are.
public func scratch(_ name: String, in parent: FilePath? = nil) throws -> FilePath {
    let parent = parent ?? FilePath(getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp")
    var template = parent.appending("\(name)-XXXXXX").string.utf8CString.map { $0 }
    guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
    return template.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) }
}
