import DataProtection
import FoundationEssentials
import Glibc
import SystemPackage

// Open to the end.
private nonisolated(unsafe) var handles: [ProtectedFile] = []

/// A program that uses every class through every door, is locked, and then waits to be searched for what it knew.
///
/// Descriptor 3 gives the passcode, 5 a recovery code, 4 bytes that are planted in ordinary memory: who does not find these
/// does not search well. `locked` on stdout says that it can be searched; a line on stdin makes it abort(3).
struct Remnants {
    private let keybag: Keybag
    private let directory: FilePath

    init(_ keybag: Keybag, in directory: FilePath) { (self.keybag, self.directory) = (keybag, directory) }

    func run() throws {
        let passcode = try secret(from: 3)
        try plant(from: 4)
        let code = try RecoveryCode(reading: secret(from: 5))
        try keybag.unlock(passcode: passcode)
        handles = try ProtectionClass.allCases.map { try use($0) }
        let doors = FurtherDoors(keybag, in: directory)
        try doors.use()
        try keybag.open(passcode: passcode).rotate(passcode: passcode, iterations: 1000)
        try keybag.rewrap(fileAt: directory.appending("complete-data"))
        try keybag.rekey(fileAt: directory.appending("complete-converted"))
        try keybag.open(passcode: passcode).setRecoveryCode(code, iterations: 1000)
        try keybag.open(recoveryCode: code).recover(passcode: passcode, 1000, recoveryCode: code, 1000)
        try keybag.changePasscode(from: passcode, to: passcode, iterations: 1000)
        try keybag.lock()
        try doors.useWhileLocked()
        try keybag.unlock(passcode: passcode)
        try doors.useAfterwards()
        for handle in handles { _ = try handle.bytes(at: 0, count: 10_000) }
        try keybag.lock()
        // An A handle that is asked while locked must not bring anything back.
        guard (try? handles[0].bytes(at: 0, count: 1)) == nil else { throw NotLocked() }
        say("locked")
        _ = readLine()
        abort()
    }

    private struct NotLocked: Error {}
    private struct NoInput: Error {}

    /// Files of a class by handle, writer and `Data`; from class to class and back, and from plaintext. One handle stays open.
    private func use(_ protectionClass: ProtectionClass) throws -> ProtectedFile {
        let name = directory.appending(protectionClass.shortName).string
        let bytes = [UInt8](repeating: 0x61, count: 300_000)

        let handle = try ProtectedFile.open(
            FilePath(name + "-handle"), .readWrite, create: protectionClass, keybag: keybag)
        try bytes.prefix(100).withUnsafeBytes { try handle.write($0, at: 0) }
        try handle.sync()
        try bytes.withUnsafeBytes { try handle.write($0, at: 50) }
        try bytes.withUnsafeBytes { _ = try handle.append($0) }
        try handle.truncate(to: 200_001)
        try handle.sync()
        _ = try handle.bytes(at: 0, count: 200_001)

        let writer = try ProtectedFileWriter(FilePath(name + "-writer"), as: protectionClass, keybag: keybag)
        try bytes.withUnsafeBytes { try writer.append($0) }
        try writer.finish()

        let url = URL(fileURLWithPath: name + "-data")
        try Data(bytes.prefix(1000)).write(to: url, options: [.atomic], protectedBy: keybag)
        for other in ProtectionClass.allCases { try keybag.setProtection(other, ofItemAt: FilePath(url.path)) }
        try keybag.setProtection(protectionClass, ofItemAt: FilePath(url.path))
        _ = try Data(contentsOf: url, protectedBy: keybag)

        let converted = FilePath(name + "-converted")
        try Data(bytes).write(to: URL(fileURLWithPath: converted.string))
        try keybag.protect(converted, as: protectionClass)
        return handle
    }

    private func secret(from descriptor: Int32) throws -> SecretBytes {
        var bytes = SecretBytes(zeroed: 64)
        let count = bytes.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress!, $0.count) }
        guard count > 0 else { throw NoInput() }
        return bytes.slice(0..<count)
    }

    /// Into memory that is never freed.
    private func plant(from descriptor: Int32) throws {
        guard Glibc.read(descriptor, malloc(32)!, 32) == 32 else { throw NoInput() }
    }
}
