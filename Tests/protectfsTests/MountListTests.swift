import Foundation
import Testing

/// The directories that are mounted at each login. `unmount --all` is tried by a user of a test's own: root's other mounts must stay.
@Suite("mount --at-login", .enabled(if: whyNoMount == nil, "\(whyNoMount ?? "")"))
struct MountListTests {
    private let bed: MountBed
    private var sandbox: CommandSandbox { bed.sandbox }
    init() throws { bed = try MountBed() }

    private var list: String { (try? sandbox.shell("cat \"$XDG_CONFIG_HOME/protectfs/mounts\"").text) ?? "" }

    @Test("A directory is mounted now, listed, mounted again by --all, and taken out of the list by unmount")
    func listed() throws {
        let added = try sandbox.run("mount", "--at-login", "--read-write", "d")
        #expect(added.status == 0 || added.errors.contains("systemctl"), "\(added.errors)")
        #expect(list == "read-write \(sandbox.path("d"))\n")
        #expect(try sandbox.shell("cat d/first-unlock").text == "c\n")
        #expect(try sandbox.run("unmount", "d").status == 0)
        for _ in 0..<2 {  // the second time it is mounted already
            let all = try sandbox.run("mount", "--all")
            #expect(all.status == 0, "\(all.errors)")
        }
        #expect(try sandbox.shell("echo w >d/w && cat d/w").text == "w\n")
        #expect(try sandbox.run("unmount", "--at-login", "d").status == 0)
        #expect(list == "")
        #expect(try sandbox.shell("head -c 4 d/first-unlock").output.elementsEqual([0x89, 0x50, 0x46, 0x53]))
        let again = try sandbox.run("unmount", "--at-login", "d")
        #expect(again.status == 66)
        #expect(again.errors.contains("is not mounted at login"), "\(again.errors)")
    }

    @Test("Several at once are all in the list")
    func concurrent() throws {
        let done = try sandbox.shell(
            """
            mkdir 1 2 3 4 5 6
            for d in 1 2 3 4 5 6; do "$PROTECTFS" mount --at-login $d 2>>errors & done; wait
            sed 's/.*\\///' "$XDG_CONFIG_HOME/protectfs/mounts" | sort
            for d in 1 3 5; do "$PROTECTFS" unmount --at-login $d 2>>errors & done; wait
            sed 's/.*\\///' "$XDG_CONFIG_HOME/protectfs/mounts" | sort
            for d in 2 4 6; do "$PROTECTFS" unmount $d; done; cat errors >&2
            """)
        #expect(done.text == "1\n2\n3\n4\n5\n6\n2\n4\n6\n", "\(done.errors)")
    }

    @Test("One that cannot be mounted does not keep the others from it, and a line that makes no sense is named")
    func failures() throws {
        _ = try sandbox.shell(
            """
            mkdir -p "$XDG_CONFIG_HOME/protectfs" gone
            printf 'read-only %s\\nread-only %s\\n' "$PWD/gone" "$PWD/d" >"$XDG_CONFIG_HOME/protectfs/mounts"; rmdir gone
            """)
        let all = try sandbox.run("mount", "--all")
        #expect(all.status == 66)
        #expect(all.errors.contains("gone"), "\(all.errors)")
        #expect(try sandbox.shell("cat d/first-unlock; echo x >d/x").text == "c\n")
        _ = try sandbox.shell("echo 'sometimes /x' >>\"$XDG_CONFIG_HOME/protectfs/mounts\"")
        let wrong = try sandbox.run("mount", "--all")
        #expect(wrong.status == 78)
        #expect(wrong.errors.contains("line 3: expected read-only DIR or read-write DIR"), "\(wrong.errors)")
    }

    @Test(
        "Options that make no sense are refused, and nothing is mounted",
        arguments: [
            ["--at-login"], ["--read-write"], ["--at-login", "d", "point"], ["--all", "d"], ["--json", "d"],
            ["--at-login", "--keybag", "elsewhere", "d"],
        ])
    func usage(words: [String]) throws {
        let done = try sandbox.run(["mount"] + words)
        #expect(done.status == 64, "\(done.errors)")
        #expect(try sandbox.shell("head -c 4 d/first-unlock").output.elementsEqual([0x89, 0x50, 0x46, 0x53]))
        #expect(try sandbox.run("unmount").status == 64)
    }
}
