import Glibc
import KernelKeyring
import SystemPackage
import Testing

@Suite("Access to a loaded key from other processes")
struct OtherSessionTests {
    private let payload = Array("three words here".utf8)
    /// Nobody's. The kernel keeps the empty keyrings of every uid there ever was: a few are enough.
    private static let otherUID = 1_900_000_100 + getpid() % 64

    @Test(
        "A process in a fresh session keyring finds and reads it",
        .enabled(if: Command.isInstalled("keyctl"), "keyctl is not installed (package keyutils)"))
    func freshSession() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load(payload)
        let search = ["keyctl", "session", "-", "keyctl", "search", "@u", "user", scratch.key.description]
        let found = try Command(search)
        #expect(found.answer == "\(serial.rawValue)", "\(found.errors)")
        let read = ["keyctl", "session", "-", "keyctl", "pipe", "\(serial.rawValue)"]
        #expect(try Command(read).answer == String(decoding: payload, as: UTF8.self))

        try scratch.evict()
        #expect(try Command(search).status != 0)
        #expect(try Command(read).status != 0)
    }

    @Test(
        "A process in a fresh session keyring cannot read one whose permissions were never set",
        .enabled(if: Command.isInstalled("keyctl"), "keyctl is not installed (package keyutils)"))
    func halfMade() throws {
        let scratch = ScratchKey()
        let serial = try scratch.addHalfMade(payload)
        let read = try Command(["keyctl", "session", "-", "keyctl", "pipe", "\(serial.rawValue)"])
        #expect(read.status != 0)
        #expect(read.errors.contains("Permission denied"), "\(read.errors)")
    }

    @Test(
        "Another uid does not",
        .enabled(if: Command.isInstalled("keyctl"), "keyctl is not installed (package keyutils)"),
        .enabled(if: geteuid() == 0, "only root can become another uid"))
    func otherUID() throws {
        let scratch = ScratchKey()
        let serial = try scratch.load(payload)
        let search = try Command(Self.asOther + ["keyctl", "search", "@u", "user", scratch.key.description])
        #expect(search.status != 0)
        #expect(search.errors.contains("Required key not available"), "\(search.errors)")
        let read = try Command(Self.asOther + ["keyctl", "pipe", "\(serial.rawValue)"])
        #expect(read.status != 0)
        #expect(read.errors.contains("Permission denied"), "\(read.errors)")
    }

    @Test(
        "Root as itself does not read another uid's",
        .enabled(if: Command.isInstalled("keyctl"), "keyctl is not installed (package keyutils)"),
        .enabled(if: geteuid() == 0, "only root can become another uid"))
    func rootAsItself() throws {
        let name = ScratchKey().key.description
        let make = """
            keyctl link @u @s
            serial=$(keyctl add user \(name) 'three words here' @u)
            keyctl setperm "$serial" \(RingKey.permissions)
            echo "$serial"
            """
        let made = try Command(Self.asOther + ["sh", "-c", make])
        let serial = try #require(Int32(made.answer).map(KeySerial.init(rawValue:)), "\(made.errors)")
        let end = Self.asOther + ["sh", "-c", "keyctl link @u @s; keyctl unlink \(serial.rawValue) @u"]
        defer { _ = try? Command(end) }
        #expect(try Command(Self.asOther + ["keyctl", "pipe", "\(serial.rawValue)"]).answer == "three words here")

        #expect(serial.payload() == .failure(.permissionDenied))
        #expect(RingKey(description: name).absence == .requiredKeyNotAvailable)
    }

    /// A shell of another uid in a fresh session keyring.
    private static let asOther = [
        "setpriv", "--reuid", "\(otherUID)", "--regid", "\(otherUID)", "--clear-groups", "keyctl", "session", "-",
    ]
}
