import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// A keybag of a test, and hardware that it can be bound to.
struct HardwareBed {
    let bag: TestKeybag
    let memory = FakeHardware.Memory()

    init(isBound: Bool = true) throws {
        bag = try TestKeybag()
        if isBound { try bind() }
    }

    /// The keybag as a process sees it whose hardware is `hardware`.
    func keybag(_ hardware: FakeHardware? = nil) throws(DataProtectionError) -> Keybag {
        try Keybag(
            at: bag.directory, hardware: hardware ?? FakeHardware(memory), followUp: .classChanges,
            warn: bag.warnings.append)
    }

    /// Binds or releases the keybag.
    func bind(_ binding: HardwareBinding = .bound, _ hardware: FakeHardware? = nil) throws {
        try opened(hardware).setPasscode(
            secret(TestKeybag.passcode), iterations: TestKeybag.iterations, binding)
    }

    func opened(_ hardware: FakeHardware? = nil, _ passcode: String = TestKeybag.passcode) throws
        -> OpenedKeybag
    {
        try keybag(hardware).open(passcode: secret(passcode))
    }

    /// Unlocks, and says what went wrong.
    @discardableResult
    func unlock(
        _ passcode: String = TestKeybag.passcode, _ hardware: FakeHardware? = nil
    ) throws -> DataProtectionError? {
        do throws(DataProtectionError) { try keybag(hardware).unlock(passcode: secret(passcode)) } catch {
            return error
        }
        return nil
    }

    /// What the hardware's problem was; nil if there was none, or something else went wrong.
    func problem(_ passcode: String = TestKeybag.passcode, _ hardware: FakeHardware? = nil) throws
        -> HardwareProblem?
    {
        guard case .because(KeybagFailure.hardware(_, let problem)) = try unlock(passcode, hardware)
        else { return nil }
        return problem
    }

    /// The share that counts, on disk.
    func share() throws -> HardwareShare? { try bag.keybag.file.load().copy.hardwareShare() }

    /// The valid record with the higher sequence.
    func attempts() throws -> AttemptRecord {
        let bytes = try bag.file("attempts").contents()
        let sectors = [bytes.prefix(512), bytes.dropFirst(512).prefix(512)].compactMap { sector in
            try? AttemptRecord(decoding: Array(sector))
        }
        return try #require(sectors.max { $0.sequence < $1.sequence })
    }

    var isPending: Bool { OwnDirectory.exists(bag.file("hardware-pending")) }

    /// Both copies as they are.
    func saved() throws -> [[UInt8]] { try KeybagFile.names.map { try bag.file($0).contents() } }

    func putBack(_ copies: [[UInt8]]) throws {
        for (name, bytes) in zip(KeybagFile.names, copies) { try bag.file(name).overwrite(bytes) }
    }

    /// A damaged or wrong keybag is told from a wrong passcode.
    static func isWrongPasscode(_ error: DataProtectionError?) -> Bool {
        if case .because(KeybagFailure.wrongPasscode) = error { true } else { false }
    }
}
