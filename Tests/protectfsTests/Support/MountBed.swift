import Foundation

/// Why nothing can be mounted here; nil if it can be.
let whyNoMount: String? = {
    if access("/dev/fuse", R_OK | W_OK) != 0 { return "there is no /dev/fuse that this user may open" }
    let places = ["/usr/bin/fusermount3", "/bin/fusermount3"]
    return places.contains { access($0, X_OK) == 0 } ? nil : "fusermount3 is not installed"
}()

/// A sandbox with a directory `d` of protected files and an empty one, `point`. The mount goes with it.
final class MountBed {
    let sandbox: CommandSandbox
    static let contents = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 7) })

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        for directory in ["d/sub", "point"] {
            try FileManager.default.createDirectory(
                atPath: sandbox.path(directory), withIntermediateDirectories: true)
        }
        try sandbox.protectedFile("d/complete", Self.contents)
        try sandbox.protectedFile("d/sub/unless-open", Data("b\n".utf8), "unless-open")
        try sandbox.protectedFile("d/first-unlock", Data("c\n".utf8), "first-unlock")
        try sandbox.protectedFile("d/none", Data("d\n".utf8), "none")
        try sandbox.put("plain\n", at: "d/plain")
        symlink("complete", sandbox.path("d/link"))
    }

    func mount() throws {
        let done = try sandbox.run("mount", "d", "point")
        try #require(done.status == 0, "\(done.errors)")
    }

    /// Makes a plaintext file of any bytes.
    func store(_ bytes: Data, at name: String) throws {
        try sandbox.put("", at: name)
        try bytes.write(to: URL(fileURLWithPath: sandbox.path(name)))
    }

    deinit { _ = try? sandbox.shell("fusermount3 -u -z point 2>/dev/null") }

    /// Runs a line of Python with the name of a file below the mount, and returns what it prints.
    func python(_ script: String, _ arguments: String...) throws -> Finished {
        try sandbox.shell("cd point && exec python3 -c \"$0\" \"$@\"", [script] + arguments)
    }
}
