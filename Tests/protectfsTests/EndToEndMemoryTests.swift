import Foundation
import SystemPackage
import Testing

/// Under strace: what `edit`, an editor and `run` write in the clear goes to memory, and nowhere else.
@Suite(
    "End to end: plaintext in memory only",
    .enabled(if: EndToEndUser.canMakeUsers && SystemCallTrace.isPossible, SystemCallTrace.whyNot))
struct EndToEndMemoryTests {
    private let user: EndToEndUser
    private let file: FilePath
    private let marker = Secret(randomBytes(32), repeats: true)

    init() throws {
        user = try EndToEndUser.caller()
        file = user.home.appending("file")
        try user.unlock()
        try user.write(file, "complete", marker.repeated(100_000))
    }

    /// Where the calls that move data without showing it lead, and those that show the marker.
    private func places(_ trace: SystemCallTrace) -> Set<String> {
        let unseen = ["copy_file_range", "sendfile", "splice", "tee", "vmsplice"]
        let calls = trace.calls(revealing: marker) + trace.calls.filter { unseen.contains(String($0.name)) }
        return Set(calls.flatMap { $0.descriptorPaths.isEmpty ? [String($0.text.prefix(80))] : $0.descriptorPaths })
    }

    private func expectNoFileReveals() throws {
        for file in try user.home.filesBelow() { #expect(!marker.isIn(try file.storedBytes()), "\(file)") }
    }

    @Test("edit: of the command, the shell and the editor with its temporary files")
    func edit() throws {
        let editor = user.home.appending("editor")
        let script = """
            cat "$1" "$1" | tee "$TMPDIR/twice" >"$1.new"; mv "$1.new" "$1"; sleep 1
            dd if="$TMPDIR/twice" bs=1000 2>/dev/null >"$1"; rm "$TMPDIR/twice"
            """
        try editor.store(Array(script.utf8))
        let trace = try SystemCallTrace(["edit", "--editor", "sh \(editor)", file.string], by: user)
        let places = places(trace)
        #expect(places.contains { $0.hasSuffix("/copy/file.new") } && places.contains { $0.hasSuffix("/tmp/twice") })
        for place in places {
            #expect(place.hasPrefix("/dev/shm/protectfs-edit-") || place.hasPrefix("pipe:"), "\(place)")
        }
        try expectNoFileReveals()
        try user.expectReads(file, marker.repeated(100_000) + marker.repeated(100_000))
    }

    @Test("An editor that writes elsewhere is seen: this test could fail")
    func control() throws {
        let trace = try SystemCallTrace(
            ["edit", "--editor", "sh -c 'cat \"$1\" >~/elsewhere' sh", file.string], by: user)
        #expect(places(trace).contains(user.home.appending("elsewhere").string))
        #expect(marker.isIn(try user.home.appending("elsewhere").storedBytes()))
    }

    @Test("run: of the command, which gets sealed memory")
    func run() throws {
        let trace = try SystemCallTrace(["run", file.string, "--", "dd", "if={}", "of=/dev/null", "bs=999"], by: user)
        #expect(places(trace) == ["/memfd:protectfs", "/dev/null"])
        try expectNoFileReveals()
    }
}
