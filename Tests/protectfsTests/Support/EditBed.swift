import Foundation
import Testing

/// A sandbox whose memory-backed directory is its own, with files that hold a marker, for `edit` and `run`.
final class EditBed: Sendable {
    let sandbox: CommandSandbox
    /// `XDG_RUNTIME_DIR`: nobody else's plain copies are in it.
    let runtime: String
    /// In every plaintext of the test, and nowhere else.
    let marker = "marker-\(UUID().uuidString)"

    init(_ variables: [String: String] = [:]) throws {
        runtime = "/dev/shm/protectfs-test-\(UUID().uuidString)"
        try FileManager.default.createDirectory(
            atPath: runtime, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        sandbox = try CommandSandbox(variables: ["XDG_RUNTIME_DIR": runtime].merging(variables) { $1 })
        for name in ["home", "tmp"] {
            try FileManager.default.createDirectory(atPath: sandbox.path(name), withIntermediateDirectories: true)
        }
        try sandbox.unlock()
    }

    deinit { try? FileManager.default.removeItem(atPath: runtime) }

    /// Text with the marker in it.
    func text(_ text: String) -> String { "\(text) \(marker)\n" }

    /// Makes a protected file with such a text.
    func make(_ name: String, _ words: String, _ className: String = "complete") throws {
        try sandbox.protectedFile(name, Data(text(words).utf8), className)
    }

    /// Edits `name` by a shell script, whose `$1` is the plain copy. `$MARKER` is the marker.
    ///
    /// - Parameter before: a script that starts `"$@"`, which is the command.
    func edit(
        _ name: String, _ options: [String] = [], by script: String, before: String = "exec \"$@\""
    ) throws -> Finished {
        try "set -e; MARKER=\(marker)\n\(Self.words)\n\(script)\n".write(
            toFile: sandbox.path("editor"), atomically: true, encoding: .utf8)
        return try sandbox.shell(
            before,
            ["sh", CommandSandbox.executable, "edit", name, "--editor", "sh \(sandbox.path("editor"))"] + options)
    }

    /// For scripts: polling, which no expectation depends on but by never ending.
    static let words = """
        until_gone() { i=0; while [ -e "$1" ]; do sleep 0.05; i=$((i + 1)); [ $i -lt 400 ] || exit 99; done; }
        until_there() { i=0; until [ -e "$1" ]; do sleep 0.05; i=$((i + 1)); [ $i -lt 400 ] || exit 98; done; }
        until_reads() {
            i=0; until [ "$("$PROTECTFS" cat "$1" 2>/dev/null)" = "$2" ]; do
                sleep 0.05; i=$((i + 1)); [ $i -lt 400 ] || exit 97; done; }
        unlock() { printf '%s' '\(CommandSandbox.passcode)' | "$PROTECTFS" unlock --passcode-fd 0; }
        """

    /// What `cat` says of a file.
    func contents(_ name: String) throws -> String { try sandbox.run("cat", name).text }

    /// The class of a file.
    func className(_ name: String) throws -> String {
        try sandbox.run("class", name).text.trimmingCharacters(in: .newlines)
    }

    /// Expects that there is no plain copy in memory any more, and no marker in any file that could have been written.
    func expectNoPlaintext(at location: SourceLocation = #_sourceLocation) throws {
        #expect(try FileManager.default.contentsOfDirectory(atPath: runtime) == [], sourceLocation: location)
        #expect(try filesWithMarker() == [], sourceLocation: location)
    }

    /// The files on disk in which the marker is, below the sandbox (home, working directory, TMPDIR) and /var/tmp.
    func filesWithMarker() throws -> [String] {
        let found = try sandbox.shell("grep -rlaF -- \"$0\" . /var/tmp 2>/dev/null || true", [marker])
        // The script of the editor, and what the harness itself keeps for standard streams.
        return found.text.split(separator: "\n").map(String.init).filter { name in
            name != "./editor" && !name.hasPrefix("./.run-")
        }
    }
}
