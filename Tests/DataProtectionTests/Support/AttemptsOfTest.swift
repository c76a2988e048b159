import ProtectionFormat
import ProtectionKeys
import SystemPackage
import Testing

@testable import DataProtection

/// The record of wrong passcodes, read and rewritten behind the library's back.
extension TestKeybag {
    /// Both sectors; nil for one that is not valid.
    func attemptSectors() throws -> [AttemptRecord?] {
        let bytes = try file("attempts").contents()
        return [0, 512].map { offset in
            try? AttemptRecord(decoding: Array(bytes.dropFirst(offset).prefix(512)))
        }
    }

    /// The sector in force.
    func attempts() throws -> AttemptRecord? {
        try attemptSectors().compactMap { $0 }.max { $0.sequence < $1.sequence }
    }

    /// Changes the record in force and writes it to both sectors.
    func rewriteAttempts(_ change: (inout AttemptRecord) throws -> Void) throws {
        guard var record = try attempts() else { throw Errno.noData }
        try change(&record)
        let sector = try record.encoded()
        try file("attempts").overwrite(sector + sector)
    }

    /// Lets time pass for the delay, as if the last attempt had been `seconds` earlier.
    ///
    /// - Throws: `ERANGE` on a machine that has not been up for so long.
    func letDelayPass(seconds: UInt64) throws {
        try rewriteAttempts { record in
            let nanoseconds = seconds * 1_000_000_000
            guard record.bootTime > nanoseconds else { throw Errno.outOfRange }
            record.bootTime -= nanoseconds
        }
    }

    /// Wrong passcodes, each another one.
    func guessWrongly(times: Int) throws {
        for number in 0..<times { expectError("wrongPasscode") { try unlock("wrong \(number)") } }
    }

    /// The tag that the record would keep of a passcode now.
    func tag(of passcode: String) throws -> UInt16? {
        GuessTagKey(keybag.ring).tag(of: try guessTag(of: passcode))
    }

    /// What the derivation gives of a passcode: FORMAT.md §1.1 row 7.
    func guessTag(of passcode: String) throws -> UInt16 {
        let slot = try KeybagCopy(decoding: try file("keybag.0").contents()).slots[0]
        let device = try DeviceKey(secret: secret(try deviceKey.contents()))
        return try PasscodeKEK(
            passcode: secret(passcode), salt: slot.salt, iterations: slot.iterations, device: device,
            keybag: keybag.uuid
        ).guessTag
    }
}
