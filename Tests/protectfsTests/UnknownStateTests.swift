import Foundation
import Testing

/// Nothing is called evicted or clean without knowing it.
@Suite("What status and lock cannot know")
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
            kill $holder; wait
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

    @Test("A limit on the size of files does not keep the keys in the keyring")
    func fileSizeLimit() throws {
        let done = try sandbox.shell("ulimit -f 0; \"$PROTECTFS\" lock 2>/dev/null; true")
        #expect(done.status == 0)
        #expect(try sandbox.run("cat", "file").status == 75)
    }
}
