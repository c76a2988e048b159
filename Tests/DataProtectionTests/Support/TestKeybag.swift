import KernelKeyring
import KeyQuota
import ProtectionKeys
import Synchronization
import SystemPackage
import Testing

@testable import DataProtection

/// A keybag of a test's own: in a temporary directory, with few iterations and a device key of its own.
///
/// Everything it put into the kernel keyring and on disk goes when this object goes, so keep hold of it: say
/// `bag.keybag.…` rather than `TestKeybag().keybag`.
///
///     let bag = try TestKeybag()          // before first unlock
///     try bag.unlock()
///     try bag.keybag.lock()
///     #expect(try bag.keybag.state() == .locked)
final class TestKeybag: Sendable {
    /// The passcode unless another one is given.
    static let passcode = "a passcode for tests"
    /// PBKDF2 iterations: the fewest that a reader accepts.
    static let iterations = 1_000

    /// What is used by the test; ``warnings`` collects what it warns of.
    let keybag: Keybag
    /// 32 bytes beside the keybag's directory.
    let deviceKey: FilePath
    /// What the keybag warned of, in order.
    let warnings: WarningLog
    private let scratch: ScratchDirectory

    /// Makes the keybag; nothing is in the ring then, unless `state` asks for more.
    init(
        passcode: String = TestKeybag.passcode, state: ProtectionState = .beforeFirstUnlock, in parent: FilePath? = nil
    ) throws {
        KeyQuota.waitForRoom()
        scratch = ScratchDirectory(in: parent)
        deviceKey = scratch.path.appending("device-key")
        warnings = WarningLog()
        let directory = scratch.path.appending("keybag")
        try Keybag.create(
            at: directory, passcode: secret(passcode), iterations: Self.iterations, deviceKey: deviceKey)
        keybag = try Keybag(at: directory, warn: warnings.append)
        if state != .beforeFirstUnlock { try unlock(passcode) }
        if state == .locked { try keybag.lock() }
    }

    // By the ring's names alone: what the test did to the directory does not matter.
    deinit { try? keybag.ring.evict(everything: true) }

    /// The keybag's directory.
    var directory: FilePath { keybag.directory }

    /// A directory that goes with the keybag, for a test's other files.
    var scratchPath: FilePath { scratch.path }

    /// Unlocks with a passcode given as text. (Fast: the weak-derivation warning it leaves is expected.)
    func unlock(_ passcode: String = TestKeybag.passcode, forSeconds seconds: UInt32? = nil) throws {
        try keybag.unlock(passcode: secret(passcode), forSeconds: seconds)
    }

    /// Unlocks, and says whether the passcode was right.
    func opens(with passcode: String) throws -> Bool {
        do {
            try unlock(passcode)
            return true
        } catch DataProtectionError.because(KeybagFailure.wrongPasscode) {
            return false
        }
    }

    /// The keybag as another process would open it.
    func reopened() throws -> Keybag { try Keybag(at: directory, warn: warnings.append) }

    /// The path of one of the keybag's files.
    func file(_ name: String) -> FilePath { directory.appending(name) }

    /// Which of the two keys a search of the ring finds, genuine or not: `[]`, `[2]` or `[1, 2]`.
    var ringContents: Set<Int> {
        var found: Set<Int> = []
        if (try? keybag.ring.unlocked.find()) != nil { found.insert(1) }
        if (try? keybag.ring.firstUnlock.find()) != nil { found.insert(2) }
        return found
    }
}

/// Collects warnings from any thread.
final class WarningLog: Sendable {
    private let all = Mutex<[ProtectionWarning]>([])

    var append: @Sendable (ProtectionWarning) -> Void {
        { [self] warning in all.withLock { $0.append(warning) } }
    }

    /// All warnings.
    var unusual: [ProtectionWarning] { all.withLock { $0 } }
}

/// Text as secret bytes.
func secret(_ text: String) -> SecretBytes { secret(Array(text.utf8)) }

/// Bytes as secret bytes.
func secret(_ bytes: [UInt8]) -> SecretBytes {
    SecretBytes(byteCount: bytes.count) { slot in slot.copyBytes(from: bytes) }
}

extension DataProtectionError {
    /// The name of the case, or of that of the layer's failure, for tests that do not care what it carries.
    var caseName: String {
        let named: Any = if case .because(let failure) = self { failure } else { self }
        return Mirror(reflecting: named).children.first?.label ?? "\(named)"
    }
}

extension ProtectionWarning {
    /// The name of the case, for tests that do not care what it carries.
    var caseName: String { Mirror(reflecting: self).children.first?.label ?? "\(self)" }
}

/// Expects a `DataProtectionError` of the named case, whatever it carries.
@discardableResult
func expectError(
    _ name: String, _ comment: @autoclosure () -> Comment? = nil, at location: SourceLocation = #_sourceLocation,
    _ body: () throws -> Void
) -> DataProtectionError? {
    let error = #expect(throws: DataProtectionError.self, comment(), sourceLocation: location, performing: body)
    #expect(error?.caseName == name, comment(), sourceLocation: location)
    return error
}
