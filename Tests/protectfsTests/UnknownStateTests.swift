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

    /// Alters the ids of class keys in both copies of the keybag and makes the checksums right, as somebody does who has no key.
    private func alterIDs(ofClasses classes: [Int]) throws {
        let script = """
            import hashlib, struct, sys
            for number in (0, 1):
                path = f'keybag/keybag.{number}'
                data = bytearray(open(path, 'rb').read())
                names, slots, entries = struct.unpack_from('<HBB', data, 56)
                for entry in range(entries):
                    offset = 64 + names + 80 * slots + 200 * entry
                    if data[offset] == 0 and data[offset + 1] in map(int, sys.argv[1:]): data[offset + 8] ^= 1
                data[-32:] = hashlib.sha256(data[:-32]).digest()
                open(path, 'wb').write(data)
            """
        let done = try sandbox.shell("exec python3 -c \"$0\" \"$@\"", [script] + classes.map(String.init))
        try #require(done.status == 0, "\(done.errors)")
    }

    @Test("A class key that opens files is never called evicted, whatever the keybag says of the other one")
    func oneIDAltered() throws {
        try alterIDs(ofClasses: [2])
        #expect(try sandbox.run("cat", "file").text == "still open\n")
        let status = try sandbox.run("status")
        #expect(status.status == 75)
        #expect(!status.text.contains("evicted"), "\(status.text)")
        #expect(status.errors.contains("the lock state is unknown"), "\(status.text) \(status.errors)")
    }

    @Test("Keys in the keyring that the keybag does not name are unknown, not absent")
    func bothIDsAltered() throws {
        try alterIDs(ofClasses: [1, 2])
        let status = try sandbox.run("status")
        #expect(status.status == 75)
        #expect(status.errors.contains("the lock state is unknown"), "\(status.text) \(status.errors)")
        #expect(try sandbox.run("lock").status == 0)
        #expect(try sandbox.run("status").status == 0)
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

    @Test("A lock of a keybag that does not open evicts, and is not clean")
    func damagedKeybag() throws {
        #expect(try sandbox.shell("for copy in 0 1; do echo damage >keybag/keybag.$copy; done").status == 0)
        let done = try sandbox.run("lock", "--require-clean")
        #expect(done.status == 75)
        #expect(done.errors.contains("cannot be asked"), "\(done.errors)")
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
