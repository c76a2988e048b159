import Foundation
import Testing

@testable import DataProtection

/// As on a network file system whose server is gone: whoever looks at a file there waits for ever.
@Suite(
    "Beside a keybag on a disk that hangs",
    .enabled(if: geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0, "needs root and FUSE: it mounts"))
struct DeadMountTests {
    private let sandbox: CommandSandbox
    /// The name of the keybag that is on the disk that hangs.
    private let uuid: KeybagUUID
    private var directory: String { sandbox.path("dead/keybag") }

    init() throws {
        sandbox = try CommandSandbox()
        try sandbox.put("", at: "dead/disk")
        try sandbox.makeKeybag(in: sandbox.path("dead/keybag"))
        uuid = try Keybag(at: FilePath(sandbox.path("dead/keybag"))).uuid
        try sandbox.unlock("--keybag", directory)
        try sandbox.unlock()
        try sandbox.protectedFile("file", Data("text\n".utf8), "none")
    }

    /// Runs a script where the disk hangs: a mount whose server never answers. A command that waits for it is ended after a minute and a half.
    private func shellBesideDeadDisk(_ script: String) throws -> Finished {
        let whole = """
            exec 9<>/dev/fuse
            mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 dead "$PWD/dead" || exit 99
            try() { timeout -s KILL 90 "$PROTECTFS" "$@" 9<&- || echo "$1: status $?"; }
            """
        let done = try sandbox.shell("exec unshare --mount sh -c \"$0\"", ["\(whole)\n\(script)"])
        try #require(done.status != 99, "\(done.errors)")
        return done
    }

    private var isUnlocked: Bool { RingKeys(uuid).holdsUnlocked }

    /// EKEYEXPIRED and ENOKEY.
    private static let (expired, gone) = (Errno(rawValue: 127), Errno(rawValue: 126))

    /// What a search for class keys A and B answers instead of them; nil if it finds them.
    private var absence: Errno? {
        do throws(Errno) { _ = try RingKeys(uuid).unlocked.find() } catch { return error }
        return nil
    }

    @Test("Every command of the own keybag ends, and lock locks it")
    func commands() throws {
        defer { sandbox.evictKeys(of: directory) }
        let done = try shellBesideDeadDisk(
            """
            try cat file; try status >status 2>&1; grep -c 'in keyring' status
            try lock; try status >status; grep complete status | head -n 1
            """)
        #expect(done.text == "text\n3\ncomplete      evicted\n", "\(done)")
        #expect(isUnlocked, "the other keybag was not locked")
    }

    @Test("Remnants go, of the keybag on the disk too")
    func remnants() throws {
        defer { sandbox.evictKeys(of: directory) }
        let ring = RingKeys(uuid)
        try ring.write { () throws(Errno) in try ring.unlocked.setTimeout(seconds: 1) }
        for _ in 0..<800 where absence != Self.expired { usleep(25_000) }
        try #require(absence == Self.expired)
        #expect(try shellBesideDeadDisk("try cat file").text == "text\n")
        #expect(absence == Self.gone)
    }

    @Test("A lock of the keybag on the disk evicts its keys before it looks there")
    func lock() throws {
        defer { sandbox.evictKeys(of: directory) }
        let done = try shellBesideDeadDisk(
            """
            "$PROTECTFS" lock --keybag "$PWD/dead/keybag" 9<&- & lock=$!
            for round in $(seq 900); do
                keyctl search @u user protectfs:\(uuid):1 >/dev/null 2>&1 || break
                sleep 0.1
            done
            kill -KILL $lock
            """)
        #expect(!isUnlocked, "\(done)")
    }
}
