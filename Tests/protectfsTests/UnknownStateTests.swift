import Foundation
import Testing

@testable import DataProtection

/// Nothing is called evicted or clean without knowing it.
@Suite("Facts that status and lock cannot know")
struct UnknownStateTests {
    private let sandbox: CommandSandbox
    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.unlock()
        try sandbox.protectedFile("file", Data("still open\n".utf8))
    }

    @Test("A lock is not clean while the notes of programs cannot be looked at")
    func unusableNotes() throws {
        let script = """
            "$PROTECTFS" run file -- sleep 60 & holder=$!
            for try in $(seq 200); do ls keybag/run/clients/* >/dev/null 2>&1 && break; sleep 0.05; done
            chmod 775 keybag/run
            "$PROTECTFS" lock --require-clean; echo "status $?"
            chmod 700 keybag/run
            "$PROTECTFS" lock --require-clean; echo "status $?"
            kill -9 $holder; wait  # what Foundation starts blocks SIGTERM
            """
        let done = try sandbox.shell(script)
        #expect(done.text == "status 75\nstatus 75\n", "\(done.errors)")
        #expect(done.errors.contains("not every program could be asked"), "\(done.errors)")
    }

    @Test("A program gets no plaintext that a lock would not know of")
    func noNote() throws {
        // A file where the directory of the notes would be.
        try sandbox.run("lock")
        try sandbox.unlock()
        #expect(try sandbox.shell("rm -rf keybag/run && : >keybag/run").status == 0)
        let done = try sandbox.run("run", "file", "--", "true")
        #expect(done.status != 0, "\(done.errors)")
        #expect(try sandbox.shell("rm keybag/run").status == 0)
    }

    @Test("Where only some class keys are genuine, status says so and how to evict them")
    func someKeys() throws {
        let uuid = try Keybag(at: FilePath(sandbox.keybagDirectory)).uuid
        // The first four bytes of class key B. Only who possesses the key may change it.
        let forging = try sandbox.shell(
            #"""
            exec keyctl session - sh -c '
                keyctl link @u @s; key=$(keyctl search @u user "$0") || exit 1
                keyctl pipe $key >payload; printf "ÿþýü" | dd of=payload bs=1 seek=64 conv=notrunc
                keyctl pupdate $key <payload' "$0"
            """#, ["protectfs:\(uuid):1"])
        try #require(forging.status == 0, "\(forging.errors)")
        #expect(try sandbox.run("cat", "file").text == "still open\n")
        for arguments in [["status"], ["status", "--json"], ["wait", "--until", "locked"]] {
            let done = try sandbox.run(arguments)
            #expect(done.status == 75, "\(arguments)")
            #expect(done.errors.contains("only some class keys of keybag"), "\(done.errors)")
            #expect(done.errors.contains("hint: evict them: protectfs lock\n"), "\(done.errors)")
        }
        #expect(try sandbox.run("lock").status == 0)
        #expect(try sandbox.run("status").text.contains(": locked since"))
        #expect(try sandbox.run("cat", "file").status == 75)
    }

    @Test("A limit on the size of files does not keep the keys in the keyring")
    func fileSizeLimit() throws {
        let done = try sandbox.shell("ulimit -f 0; \"$PROTECTFS\" lock 2>/dev/null; true")
        #expect(done.status == 0)
        #expect(try sandbox.run("cat", "file").status == 75)
    }
}
