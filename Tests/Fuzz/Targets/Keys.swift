import Glibc
import SystemPackage

@testable import DataProtection
@testable import ProtectionFormat
@testable import ProtectionKeys

/// Keys that are no secret here: with them a check or a MAC is made right, so that what lies behind it is reached.
enum Known {
    static func secret(_ count: Int = 32) -> SecretBytes { secret([UInt8](repeating: 7, count: count)) }

    static func secret(_ bytes: [UInt8]) -> SecretBytes {
        SecretBytes(byteCount: bytes.count) { slot in slot.copyBytes(from: bytes) }
    }

    static func fileKey() -> FileKey { FileKey(secret: secret()) }

    static func keybagKey(_ uuid: [UInt8]) throws -> KeybagKey {
        KeybagKey(keybag: try KeybagUUID(bytes: uuid), secret: secret())
    }

    static func backupKey(_ uuid: [UInt8]) throws -> BackupKey {
        BackupKey(keybag: try KeybagUUID(bytes: uuid), secret: secret())
    }

    /// With the SHA-256 of all of it behind it.
    static func checked(_ bytes: [UInt8]) throws -> [UInt8] { bytes + (try Digest.sha256(bytes)) }
}

/// A file without a name, for readers that read files. One after the other, as libFuzzer calls.
final class ScratchFile: Sendable {
    let file: LowerFile

    init() throws {
        var name = Array("/tmp/protectfs-fuzz-XXXXXX".utf8CString)
        let descriptor = mkstemp(&name)
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
        unlink(name)
        file = LowerFile(path: "/tmp/protectfs-fuzz", descriptor: descriptor)
    }

    /// Gives it these pieces, and nothing else.
    func hold(_ pieces: [(offset: UInt64, bytes: [UInt8])]) throws {
        try file.truncate(to: 0)
        for piece in pieces { try file.write(piece.bytes, at: piece.offset) }
        lseek(file.descriptor, 0, SEEK_SET)
    }
}
