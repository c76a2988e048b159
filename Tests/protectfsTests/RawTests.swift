import Foundation
import Testing

/// A command where a mount hides the stored files.
@Suite("raw: a command in the stored directory", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct RawTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try MountBed() }

    @Test("A command finds the ciphertext in a mount over the directory, in one beside it, and without a mount")
    func stored() throws {
        let before = try sandbox.stored("d/complete")
        for words in [["d"], ["d", "point"], []] {
            if !words.isEmpty { #expect(try sandbox.run(["mount"] + words).status == 0) }
            for place in [words.last ?? "d", (words.last ?? "d") + "/sub/.."] {
                let copied = try sandbox.run("raw", place, "--", "sh", "-c", "cat complete; pwd >&2")
                #expect(copied.status == 0 && copied.output == before, "\(words) \(copied.errors)")
            }
            if let point = words.last { #expect(try sandbox.shell("fusermount3 -u \(point)").status == 0) }
        }
    }

    @Test("The command gets its words and has its own exit status; without a command nothing happens")
    func command() throws {
        let own = try sandbox.run("raw", "d", "--", "sh", "-c", "echo \"$1\"; exit 7", "--", "--help")
        #expect(own.status == 7 && own.text == "--help\n", "\(own.errors)")
        // The directory that the shell was in is not the one that the command is in.
        let environment = try sandbox.shell("export PWD=/tmp && exec \"$PROTECTFS\" raw d -- env").text
        #expect(environment.contains("PROTECTFS_KEYBAG=") && !environment.contains("PWD=/tmp"), "\(environment)")
        #expect(try sandbox.run("raw", "d", "--", "/nothing").status == 127)
        #expect(try sandbox.run("raw", "d", "--", "./plain").status == 126)
        let none = try sandbox.run("raw", "d")
        #expect(none.status == 64 && none.errors.contains("there is no command: write it after --"))
        let lost = try sandbox.run("raw", "nowhere", "--", "true")
        #expect(lost.status == 66 && lost.errors.contains("'nowhere'"), "\(lost.errors)")
        #expect(try sandbox.run("raw", "d/plain", "--", "true").errors.contains("'d/plain'"))
    }
}
