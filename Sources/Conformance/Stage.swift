package import DataProtection
import Glibc
import SystemPackage

/// A throw-away keybag with a UUID of its own, and the means to bring it into every lock state.
///
/// Its keys are in the real kernel keyring. They go when this object goes.
package final class Stage: Sendable {
    package let scratch: Scratch
    package let keybag: Keybag
    /// Why the keybag is among the temporary files; nil: it is in ``scratch``. A file system without modes cannot keep one.
    package let refusal: DataProtectionError?
    private let elsewhere: Scratch?
    /// Random, and known to nobody else.
    private let passcode: SecretBytes
    /// Opened once: a derivation for each cell would take minutes.
    private let opened: OpenedKeybag
    static let keybagName = "keybag"

    /// - Throws: what keeps a keybag from living there, and among the temporary files.
    package init(in scratch: Scratch) throws(DataProtectionError) {
        self.scratch = scratch
        let passcode = try Self.newPasscode()
        do throws(DataProtectionError) {
            keybag = try Self.makeKeybag(in: scratch, passcode)
            (refusal, elsewhere) = (nil, nil)
        } catch {
            let other = try Scratch(in: FilePath(getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"))
            keybag = try Self.makeKeybag(in: other, passcode)
            (refusal, elsewhere) = (error, other)
        }
        opened = try keybag.open(passcode: passcode)
        self.passcode = passcode
    }

    private static func makeKeybag(
        in scratch: Scratch, _ passcode: borrowing SecretBytes
    ) throws(DataProtectionError) -> Keybag {
        // Nothing is kept under this passcode.
        try Keybag.create(
            at: scratch.path.appending(keybagName), passcode: passcode, iterations: DerivationFloor.least,
            deviceKey: scratch.path.appending("device-key"))
    }

    deinit { try? keybag.evictEverything() }

    /// Letters and signs: no byte of it ends a line.
    private static func newPasscode() throws(DataProtectionError) -> SecretBytes {
        do throws(KeyError) {
            var passcode = try SecretBytes(randomByteCount: 32)
            passcode.withUnsafeMutableBytes { bytes in
                for index in bytes.indices { bytes[index] = bytes[index] & 0x3F | 0x40 }
            }
            return passcode
        } catch {
            throw .cryptography(error)
        }
    }

    /// Writes the passcode into `descriptor`, for the program that reads from it.
    func writePasscode(to descriptor: Int32) throws(DataProtectionError) {
        let count = passcode.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress!, $0.count) }
        guard count == passcode.count else { throw .failed("", "write") }
    }

    /// Loads the keys; ends a lock that is armed.
    func unlock() throws(DataProtectionError) {
        let counter = try keybag.transition.readStrictly().counter
        let keys = try OpenedKeys(try keybag.file.load(), opened.key, keybag.directory)
        guard try keybag.load(keys, seconds: nil, ifCounterIs: counter) else { throw .busy(keybag.directory) }
    }

    /// The ring without a key of this keybag, as it is after a boot.
    func forgetKeys() throws(DataProtectionError) { try keybag.evictEverything() }

    /// Whether the ring says what `moment` means.
    func isIn(_ moment: Moment) throws -> Bool {
        let status = try keybag.status()
        return status.state == moment.state && (status.secondsUntilLock != nil) == (moment == .grace)
    }

    /// Brings the keybag into a lock state by `body`, unless it is in it.
    func enter(_ moment: Moment, _ body: () throws -> Void) throws {
        if try isIn(moment) { return }
        try body()
        // Anything else would be a finding about nothing.
        guard try isIn(moment) else {
            throw Contradiction("the keybag is \(try keybag.state().rawValue) instead of \(moment.words)")
        }
    }
}

/// Something went otherwise than it must.
struct Contradiction: Error {
    let text: String
    init(_ text: String) { self.text = text }
}

/// It cannot be tried in this way.
struct NotApplicable: Error {
    let reason: String
    init(_ reason: String) { self.reason = reason }
}
