import Glibc
import SystemPackage
import Testing

@testable import KernelKeyring

/// Another user names keys as ours are named, or puts lines of `/proc/keys` into their names, and lets everybody view them.
@Suite(
    "Names of other users' keys",
    .enabled(if: Command.isInstalled("keyctl"), "keyctl is not installed (package keyutils)"),
    .enabled(if: geteuid() == 0, "only root can become another uid"))
struct OtherUsersNamesTests {
    /// Nobody's. The kernel keeps the empty keyrings of every uid there ever was: a few are enough.
    private static let otherUID = 1_900_000_200 + getpid() % 64
    private static let asOther = [
        "setpriv", "--reuid", "\(otherUID)", "--regid", "\(otherUID)", "--clear-groups", "keyctl", "session", "-",
    ]

    /// Runs `body` while another user has a key of that name, which everybody may view.
    private func whileAnother(has name: String, _ body: () throws -> Void) throws {
        let make = "keyctl link @u @s; key=$(keyctl add user \"$0\" x @u); keyctl setperm $key 0x3f3f3f3f; echo $key"
        let made = try Command(Self.asOther + ["sh", "-c", make, name])
        let serial = try #require(Int32(made.answer), "\(made.errors)")
        defer { _ = try? Command(Self.asOther + ["sh", "-c", "keyctl link @u @s; keyctl unlink \(serial) @u"]) }
        try #require(KeySerial(rawValue: serial).keyDescription() == name, "it is shown to everybody")
        try body()
    }

    /// A name with a whole line in it, as the kernel would print it of one of our keys.
    private func name(with serial: KeySerial, _ timeout: String, of key: RingKey) -> String {
        let digits = String(UInt32(bitPattern: serial.rawValue), radix: 16)
        return "zz: 1\n\(digits) I--Q---     1 \(timeout) 3f2b0000     0     0 user      \(key.description)"
    }

    @Test("A key of ours is not elsewhere because another user has one of its name")
    func sameName() throws {
        let key = ScratchKey().key
        try whileAnother(has: key.description) {
            let elsewhere = try RingKey.elsewhere([key])
            #expect(elsewhere.isEmpty)
            let found = try RingKey.descriptions(withPrefix: key.description)
            #expect(found.isEmpty)
        }
    }

    @Test(
        "A line in a name shortens the time of a key at most",
        arguments: ["4294967295w", "99999999999999999999s", "2w"])
    func longer(timeout: String) throws {
        let scratch = ScratchKey()
        let serial = try scratch.load([1], seconds: 50)
        try whileAnother(has: name(with: serial, timeout, of: scratch.key)) {
            let left = try #require(try scratch.key.timeLeft())
            #expect(left.upperBound <= 52)
        }
    }

    @Test("A time longer than any timeout counts as none, also of a key that stays")
    func absurd() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load([1])
        try whileAnother(has: name(with: serial, "4294967295w", of: scratch.key)) {
            let left = try scratch.key.timeLeft()
            #expect(left == nil)
        }
    }

    @Test("A line in a name removes no key, under its own name or another one")
    func removed() throws {
        let (scratch, wanted) = (ScratchKey(), ScratchKey("wanted").key)
        let serial = try scratch.load([1])
        for key in [scratch.key, wanted] {
            try whileAnother(has: name(with: serial, "expd", of: key)) {
                RingKey.removeDead { $0 == key.description }
                let found = try scratch.key.find()
                #expect(found == serial)
            }
        }
    }

    @Test("A line in a name with another name for an expired key does not keep that key from being removed")
    func hidden() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load([1], seconds: 1)
        try scratch.waitUntilExpired()
        try whileAnother(has: name(with: serial, "expd", of: ScratchKey("another").key)) {
            RingKey.removeDead { $0 == scratch.key.description }
            #expect(scratch.absence == .requiredKeyNotAvailable)
        }
    }

    @Test("A dead key of another user is none of ours, whatever a line in a name calls it")
    func invented() throws {
        let key = ScratchKey().key
        let make = "keyctl link @u @s; key=$(keyctl add user dead x @u); keyctl revoke $key; echo $key"
        let made = try Command(Self.asOther + ["sh", "-c", make])
        let serial = KeySerial(rawValue: try #require(Int32(made.answer), "\(made.errors)"))
        try whileAnother(has: name(with: serial, "expd", of: key)) {
            let found = try RingKey.descriptions(withPrefix: key.description)
            #expect(found.isEmpty)
        }
    }

    @Test("A name that ends in a carriage return hides no other key's line")
    func carriageReturn() {
        let text =
            "00000001 I-----N     1 perm 3f3f0000     7     7 user      x\r\n00000002 I--Q---     1 5s 3f2b0000     7     7 user      y: 1\n"
        let lines = ProcKeys.lines(in: Array(text.utf8))
        #expect(lines.map(\.serial.rawValue) == [1, 2])
        #expect(lines.last?.description == "y" && lines.last?.timeLeft == 5..<6 && lines.last?.owner == 7)
    }
}
